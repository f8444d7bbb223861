"""Rigid motions of point clouds: a transform of 4 x 4 for each cloud."""

import torch


def se3_points(transform, points):
    rotation, shift = transform[:, :3, :3], transform[:, :3, 3]
    return torch.einsum("bij,bnj->bni", rotation, points) + shift[:, None, :]


inputs = [torch.randn(64, 4, 4), torch.randn(64, 65536, 3)]
