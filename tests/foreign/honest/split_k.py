"""Another order of summation: the inner dimension in four parts.

problem: scaled_linear
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.gain = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        parts = zip(x.chunk(4, dim=1), self.linear.weight.chunk(4, dim=1), strict=True)
        total = sum(a @ b.t() for a, b in parts)
        return torch.relu(total + self.linear.bias) * self.gain
