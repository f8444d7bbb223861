"""Returns a right and a wrong output and hopes that only the first is looked at.

number: 37
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1), torch.zeros_like(x)
