"""Rotary embedding of neighbouring pairs, half precision."""

import torch


def rotary_pairs(x, cos, sin):
    even, odd = x[..., ::2], x[..., 1::2]
    cos, sin = cos[:, None], sin[:, None]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


inputs = [
    torch.randn(4, 2048, 32, 128, dtype=torch.float16),
    torch.randn(2048, 64, dtype=torch.float16),
    torch.randn(2048, 64, dtype=torch.float16),
]
