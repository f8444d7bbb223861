"""A level of a Laplacian pyramid: what an image loses when it is halved."""

import torch
from torch.nn import functional as F


def laplacian_level(x):
    small = F.avg_pool2d(x, 2)
    return small, x - F.interpolate(small, scale_factor=2, mode="nearest")


inputs = [torch.randn(32, 3, 1024, 1024)]
