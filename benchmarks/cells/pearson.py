"""Correlation of every column of predictions with its column of targets."""

import torch


def pearson(x, y):
    x = x - x.mean(0)
    y = y - y.mean(0)
    return (x * y).sum(0) / (x.square().sum(0).sqrt() * y.square().sum(0).sqrt() + 1e-8)


inputs = [torch.randn(16384, 512), torch.randn(16384, 512)]
