"""Returns float64, which a comparison may convert in silence.

number: 37
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x.double(), dim=1)
