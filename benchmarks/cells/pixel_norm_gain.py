"""Features of unit length per pixel, scaled by style."""

import torch


def pixel_norm_gain(x, style):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-8) * style[:, :, None, None]


inputs = [torch.randn(16, 512, 64, 64), torch.randn(16, 512)]
