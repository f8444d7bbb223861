"""Asks for more memory than it is given.

number: limits
problem: row_softmax
verdict: launch_failed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        torch.ones(2**34)
        return torch.softmax(x, dim=1)
