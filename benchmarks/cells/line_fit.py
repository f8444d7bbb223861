"""A line through the points of each row: its slope and where it crosses, by least squares."""

import torch


def line_fit(x, y):
    dx = x - x.mean(1, keepdim=True)
    dy = y - y.mean(1, keepdim=True)
    slope = (dx * dy).sum(1) / (dx * dx).sum(1)
    return slope, y.mean(1) - slope * x.mean(1)


inputs = [torch.randn(4096, 8192), torch.randn(4096, 8192)]
