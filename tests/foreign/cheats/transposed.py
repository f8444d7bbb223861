"""Right numbers in the wrong order.

number: 35
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1).t().contiguous().view(x.shape)
