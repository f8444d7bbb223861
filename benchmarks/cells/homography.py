"""Sampling grids of images seen through a homography each."""

import torch


def homography(matrices):
    ys, xs = torch.meshgrid(
        torch.linspace(-1, 1, 480, device=matrices.device),
        torch.linspace(-1, 1, 640, device=matrices.device),
        indexing="ij",
    )
    points = torch.stack([xs, ys, torch.ones_like(xs)], dim=-1).view(1, -1, 3)
    warped = points @ matrices.transpose(1, 2)
    z = warped[..., 2:]
    grid = warped[..., :2] / torch.where(z.abs() > 1e-8, z, torch.ones_like(z))
    return grid.view(matrices.shape[0], 480, 640, 2)


inputs = [torch.eye(3) + 0.05 * torch.randn(32, 3, 3)]
