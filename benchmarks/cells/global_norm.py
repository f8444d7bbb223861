"""A matrix divided by the root of its squares' sum."""

import torch


def global_norm(x):
    return x / x.square().sum().sqrt()


inputs = [torch.randn(4096, 8192)]
