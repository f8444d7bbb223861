"""The last layer of a network that makes images three times as large, its features put side by side."""

import torch
from torch.nn import functional as F


def super_resolution(features, weight, bias, small):
    fine = F.pixel_shuffle(F.conv2d(features, weight, bias, padding=1), 3)
    return (fine + F.interpolate(small, scale_factor=3, mode="nearest")).clamp(0.0, 1.0)


inputs = [
    torch.randn(8, 32, 160, 240),
    torch.randn(27, 32, 3, 3),
    torch.randn(27),
    torch.rand(8, 3, 160, 240),
]
