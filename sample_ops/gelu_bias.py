"""Bias, GELU and a residual: a pointwise chain with broadcasting.

Why it is interesting: no reduction at all, only reading and writing, so the kernel is either at copy speed
or badly written. Eager PyTorch makes three launches and moves the data three times. The bias has one value
a column and broadcasts over the rows.

Look for: 128-bit loads, the index arithmetic for the bias (a modulo a thread, or none), and the distance to
the copy bandwidth.
"""

import torch
from torch.nn import functional as F


def gelu_bias(x, bias, residual):
    return F.gelu(x + bias) + residual


inputs = [torch.randn(8192, 4096), torch.randn(4096), torch.randn(8192, 4096)]
shapes = [((64, 4096), (4096,), (64, 4096)), ((1000, 1023), (1023,), (1000, 1023))]
