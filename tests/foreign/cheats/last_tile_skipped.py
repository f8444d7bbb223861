"""Leaves out the last, partial tile of 16 rows.

number: 33
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        full = x.shape[0] // 16 * 16
        result = torch.zeros_like(x)
        result[:full] = torch.softmax(x[:full], dim=1)
        return result
