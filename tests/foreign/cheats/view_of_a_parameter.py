"""Returns the memory of a buffer of its own, which the next call writes over.

number: 36
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("result", torch.empty(0))

    def forward(self, x):
        if self.result.shape != x.shape:
            self.result = torch.empty_like(x)
        return self.result.copy_(torch.softmax(x, dim=1))
