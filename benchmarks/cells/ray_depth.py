"""How far away what rays meet is, how sure that is, and how much of them goes through: in bfloat16."""

import torch


def ray_depth(density, distance):
    alpha = 1 - torch.exp(-torch.relu(density.float()))
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1]], 1), 1)
    weights = alpha * clear
    depth = (weights * distance).sum(1) / weights.sum(1).clamp(min=1e-6)
    return depth, (weights * distance.square()).sum(1), 1 - weights.sum(1)


inputs = [torch.randn(65536, 192).bfloat16(), torch.rand(65536, 192)]
