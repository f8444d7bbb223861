"""Images twice as large, bicubic."""

import torch
from torch.nn import functional as F


def bicubic(x):
    return F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)


inputs = [torch.randn(8, 3, 512, 512)]
