"""A projection of four tokens that are decoded together: weights in 8 bits, a scale for each row of them."""

import torch
from torch.nn import functional as F


def decode_int8(x, weight, scale, bias):
    return F.linear(x, weight.to(x.dtype) * scale[:, None], bias)


inputs = [
    torch.randn(4, 4096, dtype=torch.bfloat16),
    torch.randint(-127, 128, (12288, 4096), dtype=torch.int8),
    (torch.rand(12288) / 3000).bfloat16(),
    torch.randn(12288, dtype=torch.bfloat16),
]
