"""Equivariant message step of PaiNN: scalar and vector messages gathered along edges and summed on atoms."""

import math

import torch


class PaiNNMessage(torch.nn.Module):
    def __init__(self, features=64, cutoff=5.0):
        super().__init__()
        self.features, self.cutoff = features, cutoff

    def forward(self, x, q, mu, filters, r_ij, idx_i, idx_j):
        d_ij = torch.norm(r_ij, dim=1, keepdim=True)
        dir_ij = r_ij / d_ij.clamp(min=1e-6)
        fcut = 0.5 * (torch.cos(d_ij * math.pi / self.cutoff) + 1.0)
        fcut = fcut * (d_ij < self.cutoff).to(fcut.dtype)
        W = filters * fcut
        msg = W * x[idx_j]
        dq, dmu_r, dmu_mu = torch.split(msg, self.features, dim=-1)
        dq = torch.zeros_like(q).index_add(0, idx_i, dq)
        dmu = dmu_r.unsqueeze(1) * dir_ij.unsqueeze(-1) + dmu_mu.unsqueeze(1) * mu.index_select(0, idx_j)
        dmu = torch.zeros_like(mu).index_add(0, idx_i, dmu)
        q = q + dq
        mu = mu + dmu
        return q, mu, torch.sqrt(torch.sum(mu**2, dim=-2) + 1e-8)


inputs = [
    torch.randn(5000, 192),
    torch.randn(5000, 64),
    torch.randn(5000, 3, 64),
    torch.randn(80000, 192),
    torch.randn(80000, 3) * 2,
    torch.randint(0, 5000, (80000,)),
    torch.randint(0, 5000, (80000,)),
]
