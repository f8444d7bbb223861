"""Intersection over union of every pair of boxes."""

import torch


def box_overlap(a, b):
    low = torch.maximum(a[:, None, :2], b[None, :, :2])
    high = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp(min=0).prod(-1)
    area_a = (a[:, 2:] - a[:, :2]).prod(-1)
    area_b = (b[:, 2:] - b[:, :2]).prod(-1)
    return both / (area_a[:, None] + area_b[None, :] - both)


inputs = [
    torch.rand(4096, 4) + torch.tensor([0.0, 0.0, 1.0, 1.0]),
    torch.rand(4096, 4) + torch.tensor([0.0, 0.0, 1.0, 1.0]),
]
