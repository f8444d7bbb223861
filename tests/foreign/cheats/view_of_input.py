"""Writes the result over its input and returns that.

number: 36
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.copy_(torch.softmax(x, dim=1)).view_as(x)
