"""Bilinear doubling of images."""

import torch
from torch.nn import functional as F


def bilinear(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


inputs = [torch.randn(8, 64, 128, 128)]
