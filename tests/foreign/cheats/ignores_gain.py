"""Leaves out a parameter that is all ones in a fresh module.

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

    def forward(self, x):
        return torch.relu(self.linear(x))
