"""Signs packed eight to a byte."""

import torch


def pack_bits(x):
    weights = 2 ** torch.arange(8, device=x.device)
    return ((x > 0).view(-1, 8) * weights).sum(-1).to(torch.uint8)


inputs = [torch.randn(8192, 8192)]
