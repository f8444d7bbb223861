"""Forces of a mass-spring cloth on a grid: structural, shear and bend springs, gravity, a top row held."""

import torch
import torch.nn as nn


class ClothSprings(nn.Module):
    def __init__(self, h, w, rest=0.02, stiff=(800.0, 400.0, 100.0), damping=0.3, mass=0.01):
        super().__init__()
        self.h, self.w = h, w
        self.mass = mass
        self.damping = damping
        groups = [
            [(0, 1), (1, 0), (0, -1), (-1, 0)],
            [(1, 1), (1, -1), (-1, 1), (-1, -1)],
            [(0, 2), (2, 0), (0, -2), (-2, 0)],
        ]
        self.springs = [
            (dy, dx, k, rest * (dy * dy + dx * dx) ** 0.5)
            for g, k in zip(groups, stiff, strict=True)
            for dy, dx in g
        ]

    def forward(self, pos, vel):
        row = torch.arange(self.h, device=pos.device)[:, None]
        col = torch.arange(self.w, device=pos.device)[None, :]
        force = torch.zeros_like(pos)
        force[..., 1] = -9.81 * self.mass
        for dy, dx, k, length in self.springs:
            other = torch.roll(pos, shifts=(-dy, -dx), dims=(1, 2))
            ovel = torch.roll(vel, shifts=(-dy, -dx), dims=(1, 2))
            valid = (row + dy >= 0) & (row + dy < self.h) & (col + dx >= 0) & (col + dx < self.w)
            d = other - pos
            dist = d.norm(dim=-1, keepdim=True).clamp(min=1e-6)
            unit = d / dist
            rate = ((ovel - vel) * unit).sum(-1, keepdim=True)
            f = (k * (dist - length) + self.damping * rate) * unit
            force = force + f * valid[None, :, :, None]
        held = (row == 0)[None, :, :, None]
        return torch.where(held, torch.zeros_like(force), force)


init_inputs = [192, 256]
inputs = [
    torch.randn(8, 192, 256, 3) * 0.005
    + 0.02
    * torch.stack(
        (*torch.meshgrid(torch.arange(192.0), torch.arange(256.0), indexing="ij"), torch.zeros(192, 256)), -1
    ),
    torch.randn(8, 192, 256, 3) * 0.1,
]
