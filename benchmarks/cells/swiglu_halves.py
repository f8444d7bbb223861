"""SwiGLU of two halves of one row, bfloat16."""

import torch
from torch.nn import functional as F


def swiglu_halves(x):
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


inputs = [torch.randn(4096, 22016, dtype=torch.bfloat16)]
