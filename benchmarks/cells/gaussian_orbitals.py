"""Contracted Gaussian orbitals at the points of a grid, and the density of electrons there."""

import torch


def gaussian_orbitals(points, centres, exponents, coefficients, occupied):
    delta = points[:, None, :] - centres[None]
    r2 = torch.einsum("gax,gax->ga", delta, delta)
    radial = (coefficients * torch.exp(-exponents * r2[..., None])).sum(-1)
    orbitals = torch.cat([radial, radial * delta[..., 2]], dim=1)
    psi = orbitals @ occupied
    return 2 * (psi**2).sum(-1)


inputs = [
    torch.randn(100000, 3) * 3,
    torch.randn(12, 3) * 2,
    torch.rand(12, 6) * 3 + 0.1,
    torch.randn(12, 6) * 0.3,
    torch.randn(24, 16) * 0.3,
]
