"""Nearest neighbours doubled, plus the finer map, as a feature pyramid has it."""

import torch
from torch.nn import functional as F


def upsample_add(coarse, fine):
    return F.interpolate(coarse, scale_factor=2, mode="nearest") + fine


inputs = [torch.randn(8, 256, 64, 64), torch.randn(8, 256, 128, 128)]
