"""One token's residual sum and RMS norm, bfloat16."""

import torch


def decode_add_norm(x, residual, weight):
    total = (x + residual).float()
    scale = torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (total * scale).to(x.dtype) * weight, total.to(x.dtype)


inputs = [
    torch.randn(8, 4096, dtype=torch.bfloat16),
    torch.randn(8, 4096, dtype=torch.bfloat16),
    torch.randn(4096, dtype=torch.bfloat16),
]
