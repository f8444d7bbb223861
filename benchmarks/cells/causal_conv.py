"""A short causal convolution of every channel, and SiLU, as state space models have it."""

import torch
from torch.nn import functional as F


def causal_conv(x, weight, bias):
    return F.silu(F.conv1d(x, weight, bias, padding=3, groups=x.shape[1])[..., : x.shape[-1]])


inputs = [torch.randn(8, 1536, 2048), torch.randn(1536, 1, 4), torch.randn(1536)]
