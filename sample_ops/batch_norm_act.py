"""Batch norm in evaluation mode, then hard swish: an affine map that hides in six tensors.

Why it is interesting: with fixed statistics, batch norm is y = a * x + b with one a and one b a channel;
folding weight, bias, mean and variance into them is algebra a compiler may do once instead of once an
element. The parameters are buffers of a module: the workbench passes them as named tensors.

Look for: the index arithmetic that finds the channel, and what is recomputed for every element.
"""

import torch
from torch import nn
from torch.nn import functional as F


class BatchNormAct(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.hardswish(self.norm(x))


init_inputs = [64]
inputs = [torch.randn(64, 64, 112, 112)]
shapes = [(1, 64, 7, 7), (16, 64, 56, 56)]
