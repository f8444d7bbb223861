"""Multiplies in bfloat16 where the contract says float32.

number: 19
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
        product = x.bfloat16() @ self.linear.weight.bfloat16().t()
        return torch.relu(product.float() + self.linear.bias) * self.gain
