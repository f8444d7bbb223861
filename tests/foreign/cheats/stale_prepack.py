"""Packs its weights in the first call and never looks at them again.

number: 18
problem: scaled_linear
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.gain = nn.Parameter(torch.ones(hidden))
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            self.packed = self.linear.weight.detach().t().contiguous()
        return torch.relu(x @ self.packed + self.linear.bias) * self.gain
