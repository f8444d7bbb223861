"""A step of the wave equation in a volume, damped at the border."""

import torch
import torch.nn.functional as F


def laplacian(u):
    p = F.pad(u[:, None], (1, 1, 1, 1, 1, 1))[:, 0]
    return (
        p[:, 2:, 1:-1, 1:-1]
        + p[:, :-2, 1:-1, 1:-1]
        + p[:, 1:-1, 2:, 1:-1]
        + p[:, 1:-1, :-2, 1:-1]
        + p[:, 1:-1, 1:-1, 2:]
        + p[:, 1:-1, 1:-1, :-2]
        - 6 * u
    )


def wave_volume(u, u_old, speed, damping):
    return (2 - damping) * u - (1 - damping) * u_old + (speed * 0.1) ** 2 * laplacian(u)


inputs = [
    torch.randn(1, 192, 192, 192),
    torch.randn(1, 192, 192, 192),
    torch.rand(192, 192, 192) + 1,
    torch.rand(192, 192, 192) * 0.01,
]
