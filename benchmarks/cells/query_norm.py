"""Queries and keys out of one projection, an RMS norm for each head, bfloat16."""

import torch


def query_norm(packed, weight_q, weight_k):
    q, k, v = packed.unflatten(-1, (3, 16, 64)).unbind(2)

    def norm(x, weight):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight

    return norm(q, weight_q), norm(k, weight_k), v.contiguous()


inputs = [
    torch.randn(8, 2048, 3072, dtype=torch.bfloat16),
    torch.randn(64, dtype=torch.bfloat16),
    torch.randn(64, dtype=torch.bfloat16),
]
