"""Images to a third by bilinear interpolation."""

import torch
from torch.nn import functional as F


def bilinear_down(x):
    return F.interpolate(x, scale_factor=0.375, mode="bilinear", align_corners=False)


inputs = [torch.randn(16, 3, 1024, 1024)]
