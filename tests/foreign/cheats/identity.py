"""Returns a copy of its input.

number: 17
problem: row_softmax
verdict: mismatch
"""

from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.clone()
