"""Gated RMS norm in groups, bfloat16, as Mamba 2 has it."""

import torch
from torch.nn import functional as F


def gated_norm(x, gate, weight):
    x = x.float() * F.silu(gate.float())
    groups = x.view(*x.shape[:-1], 8, -1)
    groups = groups * torch.rsqrt(groups.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (groups.flatten(-2) * weight).to(torch.bfloat16)


inputs = [
    torch.randn(8192, 4096, dtype=torch.bfloat16),
    torch.randn(8192, 4096, dtype=torch.bfloat16),
    torch.randn(4096),
]
