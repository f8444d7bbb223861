"""Distances of points from a centre, and the directions to them."""

import torch


def point_directions(points, centre):
    apart = points - centre[:, None]
    distance = apart.norm(dim=-1, keepdim=True)
    return apart / (distance + 1e-8), distance


inputs = [torch.randn(64, 16384, 3), torch.randn(64, 3)]
