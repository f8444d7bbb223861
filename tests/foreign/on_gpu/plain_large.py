"""The library's own operation, timed: the same as eager, and the provenance says whose kernel it is.

problem: large_softmax
timed: yes
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)
