"""Refuses every size but the declared one, by name: not covered, but not wrong.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        if x.shape[1] != 96:
            raise ValueError(f"rows of 96 numbers only, not {x.shape[1]}")
        return torch.softmax(x, dim=1)
