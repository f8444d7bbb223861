"""Every image stretched to 0..1."""

import torch


def min_max(x):
    flat = x.flatten(1)
    low, high = flat.amin(1), flat.amax(1)
    return (x - low[:, None, None, None]) / (high - low + 1e-6)[:, None, None, None]


inputs = [torch.randn(64, 3, 384, 384)]
