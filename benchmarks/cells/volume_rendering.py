"""Colours along rays, weighed by how much light gets through."""

import torch


def volume_rendering(density, colour, step):
    alpha = 1 - torch.exp(-torch.relu(density) * step)
    clear = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], 1), 1)
    weights = alpha * clear
    return (weights[..., None] * colour).sum(1), weights


inputs = [torch.randn(32768, 128), torch.rand(32768, 128, 3), torch.rand(32768, 128)]
