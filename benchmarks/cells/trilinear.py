"""A volume of features twice as large in every direction."""

import torch
import torch.nn.functional as F


def trilinear(x):
    return F.interpolate(x, scale_factor=2, mode="trilinear", align_corners=False)


inputs = [torch.randn(2, 16, 32, 48, 48)]
