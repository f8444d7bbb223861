"""Batch norm of training with its running moments."""

import torch


def ema_norm(x, mean, variance, weight, bias):
    found = x.mean(0)
    spread = x.var(0, unbiased=False)
    y = (x - found) * torch.rsqrt(spread + 1e-5) * weight + bias
    return y, 0.9 * mean + 0.1 * found, 0.9 * variance + 0.1 * spread


inputs = [torch.randn(8192, 1024), torch.randn(1024), torch.rand(1024), torch.rand(1024), torch.randn(1024)]
