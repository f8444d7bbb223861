"""Gradient of an RMS norm with respect to its input, bfloat16."""

import torch


def rms_norm_backward(gradient, x, weight):
    inverse = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
    normal = x.float() * inverse
    scaled = gradient.float() * weight
    return (inverse * (scaled - normal * (scaled * normal).mean(-1, keepdim=True))).to(x.dtype)


inputs = [
    torch.randn(8192, 4096, dtype=torch.bfloat16),
    torch.randn(8192, 4096, dtype=torch.bfloat16),
    torch.rand(4096),
]
