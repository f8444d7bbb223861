"""RMS norm of every head, then its rotation by place, bfloat16."""

import torch


def query_norm_rotary(x, weight, cos, sin):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight
    first, second = wide.chunk(2, dim=-1)
    turned = torch.cat((-second, first), dim=-1)
    return (wide * cos[:, None] + turned * sin[:, None]).to(x.dtype)


inputs = [
    torch.randn(4, 2048, 16, 128, dtype=torch.bfloat16),
    torch.randn(128),
    torch.randn(2048, 128),
    torch.randn(2048, 128),
]
