"""torch.compile writes the kernel.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


@torch.compile(dynamic=False)
def softmax(x):
    return torch.softmax(x, dim=1)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
