"""The feed-forward block of a language model for four tokens that are decoded together, in bfloat16."""

import torch
from torch.nn import functional as F


def decode_swiglu(x, scale, gate, up, down):
    normed = F.rms_norm(x, (x.shape[-1],), scale)
    return x + F.linear(F.silu(F.linear(normed, gate)) * F.linear(normed, up), down)


inputs = [
    torch.randn(4, 4096, dtype=torch.bfloat16),
    torch.ones(4096, dtype=torch.bfloat16),
    (torch.randn(11008, 4096) * 0.02).bfloat16(),
    (torch.randn(11008, 4096) * 0.02).bfloat16(),
    (torch.randn(4096, 11008) * 0.02).bfloat16(),
]
