"""A series less its moving average of 25 steps."""

import torch
from torch.nn import functional as F


def moving_average(x):
    padded = F.pad(x, (12, 12), mode="replicate")
    trend = F.avg_pool1d(padded, 25, 1)
    return x - trend, trend


inputs = [torch.randn(64, 321, 720)]
