"""Returns NaN, hoping that a comparison with NaN is never true.

number: 30
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
