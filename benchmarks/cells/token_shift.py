"""Every token mixed with the one before it, three ways."""

import torch
from torch.nn import functional as F


def token_shift(x, keys, values, gates):
    before = F.pad(x, (0, 0, 1, -1))
    return x + (before - x) * keys, x + (before - x) * values, x + (before - x) * gates


inputs = [torch.randn(8, 2048, 1024), torch.rand(1024), torch.rand(1024), torch.rand(1024)]
