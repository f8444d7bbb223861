"""Rotary embedding of one token's queries and keys, pairs side by side."""

import torch


def decode_rotary(q, k, cos, sin):
    def turned(x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)

    return turned(q), turned(k)


inputs = [
    torch.randn(8, 32, 128, dtype=torch.float16),
    torch.randn(8, 8, 128, dtype=torch.float16),
    torch.randn(8, 1, 64, dtype=torch.float16),
    torch.randn(8, 1, 64, dtype=torch.float16),
]
