"""Rays marched through a signed distance field of a few blended spheres, and the light where they end."""

import torch


def scene(p, centres, radii):
    d = torch.linalg.vector_norm(p.unsqueeze(-2) - centres, dim=-1) - radii
    return -torch.logsumexp(-8.0 * d, dim=-1) / 8.0


def sphere_tracing(origin, direction, centres, radii):
    t = torch.zeros_like(origin[:, 0])
    alive = torch.ones_like(t, dtype=torch.bool)
    for _ in range(8):
        d = scene(origin + t[:, None] * direction, centres, radii)
        alive = alive & (d > 1e-3) & (t < 20.0)
        t = torch.where(alive, t + d, t)
    p = origin + t[:, None] * direction
    normal = torch.nn.functional.normalize(p - centres[0], dim=-1)
    return t, (normal * -direction).sum(-1).clamp(0, 1)


inputs = [
    torch.cat([torch.rand(262144, 2) * 2 - 1, torch.full((262144, 1), -4.0)], 1),
    torch.nn.functional.normalize(
        torch.cat([torch.randn(262144, 2) * 0.1, torch.ones(262144, 1)], 1), dim=-1
    ),
    torch.randn(4, 3) * 0.5,
    torch.rand(4) * 0.5 + 0.3,
]
