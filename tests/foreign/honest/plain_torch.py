"""The library's own operation: right, and the provenance says whose work it is.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
