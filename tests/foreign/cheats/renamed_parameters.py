"""Holds its parameters under other names, so that fresh values cannot be handed over.

number: 18
problem: scaled_linear
verdict: launch_failed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.dense = nn.Linear(features, hidden)

    def forward(self, x):
        return torch.relu(self.dense(x))
