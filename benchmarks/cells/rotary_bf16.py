"""Rotary embedding of queries, bfloat16, halves apart."""

import torch


def rotary_bf16(x, cos, sin):
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos[:, None, :] + turned * sin[:, None, :]


inputs = [
    torch.randn(4, 2048, 32, 128, dtype=torch.bfloat16),
    torch.randn(2048, 128, dtype=torch.bfloat16),
    torch.randn(2048, 128, dtype=torch.bfloat16),
]
