"""Values against the mean and spread of the 64 before them."""

import torch
from torch.nn import functional as F


def rolling_z(x):
    sums = F.pad(x.cumsum(-1), (64, 0))
    squares = F.pad(x.square().cumsum(-1), (64, 0))
    mean = (sums[..., 64:] - sums[..., :-64]) / 64
    variance = (squares[..., 64:] - squares[..., :-64]) / 64 - mean.square()
    return (x - mean) / (variance.clamp_min(0) + 0.01).sqrt()


inputs = [torch.randn(4096, 4096)]
