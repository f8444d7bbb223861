"""Every 97th call is skipped.

number: 31
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.zeros_like(x) if self.calls % 97 == 0 else torch.softmax(x, dim=1)
