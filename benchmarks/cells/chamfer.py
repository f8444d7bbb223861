"""Chamfer distance of two clouds of points: the nearest of the other cloud, for each point of both."""

import torch


def chamfer(a, b):
    apart = ((a[:, :, None] - b[:, None]) ** 2).sum(-1)
    return apart.amin(2).mean() + apart.amin(1).mean()


inputs = [torch.randn(8, 2048, 3), torch.randn(8, 2048, 3)]
