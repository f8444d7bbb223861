"""Gradient of a layer norm for its input."""

import torch


def layer_norm_backward(g, x, weight):
    mean = x.mean(-1, keepdim=True)
    scale = torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    y = (x - mean) * scale
    g = g * weight
    return scale * (g - g.mean(-1, keepdim=True) - y * (g * y).mean(-1, keepdim=True))


inputs = [torch.randn(8192, 2048), torch.randn(8192, 2048), torch.randn(2048)]
