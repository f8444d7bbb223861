"""Channels to pixels, scale 2."""

import torch
from torch.nn import functional as F


def pixel_shuffle(x):
    return F.pixel_shuffle(x, 2)


inputs = [torch.randn(16, 256, 64, 64)]
