"""Channels weighted by the sigmoid of their means."""

import torch


def squeeze_excite(x):
    return x * torch.sigmoid(x.mean((2, 3), keepdim=True))


inputs = [torch.randn(32, 256, 56, 56)]
