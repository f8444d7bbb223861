"""Layer norm with weight and bias: two statistics a row, then a pointwise pass.

Why it is interesting: mean and variance want two passes over the row, or one pass that sums x and x*x
and loses digits when the mean is large against the spread. The referee tries inputs with a large offset,
so the fast way has to be the accurate way: keep the row in registers, or use Welford's update.

Look for: the error against float64 with offset inputs, and weight and bias read once a block rather than
once a row.
"""

import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        return self.norm(x)


init_inputs = [4096]
inputs = [torch.randn(4096, 4096)]
shapes = [(64, 4096), (1, 4096)]
