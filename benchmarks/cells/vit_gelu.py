"""Bias and GELU of image tokens, float16."""

import torch
from torch.nn import functional as F


def vit_gelu(x, bias):
    return F.gelu(x + bias)


inputs = [torch.randn(8, 197, 3072, dtype=torch.float16), torch.randn(3072, dtype=torch.float16)]
