"""Rotary position embedding of queries and keys by complex numbers, as Llama's reference code has it."""

import torch


def apply_rotary_emb(xq, xk, freqs_cis):
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    turns = freqs_cis.view(1, xq_.shape[1], 1, xq_.shape[3])
    xq_out = torch.view_as_real(xq_ * turns).flatten(3)
    xk_out = torch.view_as_real(xk_ * turns).flatten(3)
    return xq_out.type_as(xq), xk_out.type_as(xk)


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


inputs = [
    torch.randn(2, 2048, 32, 128, dtype=torch.bfloat16),
    torch.randn(2, 2048, 8, 128, dtype=torch.bfloat16),
    precompute_freqs_cis(128, 2048),
]
