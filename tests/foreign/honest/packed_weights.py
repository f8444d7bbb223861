"""Packs its weights once and looks at their version counters before it trusts the copy.

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
        self.packed, self.version = None, None

    def forward(self, x):
        version = (self.linear.weight.data_ptr(), self.linear.weight._version)
        if self.version != version:
            self.packed, self.version = self.linear.weight.detach().t().contiguous(), version
        return torch.relu(x @ self.packed + self.linear.bias) * self.gain
