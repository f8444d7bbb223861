"""Weights out of pairs of four bits, a scale and a zero for 128 of them, to float16."""

import torch


def int4_weights(packed, scale, zero):
    low, high = packed & 15, packed >> 4
    both = torch.stack((low, high), -1).reshape(packed.shape[0], -1, 128).to(torch.float16)
    return ((both - zero[..., None]) * scale[..., None]).flatten(1)


inputs = [
    torch.randint(0, 256, (4096, 2048), dtype=torch.uint8),
    torch.rand(4096, 32, dtype=torch.float16),
    torch.rand(4096, 32, dtype=torch.float16) * 8,
]
