"""The largest of 5x5 neighbours."""

import torch
from torch.nn import functional as F


def dilation(x):
    return F.max_pool2d(x, 5, 1, 2)


inputs = [torch.rand(16, 16, 256, 256)]
