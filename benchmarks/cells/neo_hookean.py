"""Energies and stresses of tetrahedra: a deformation's determinant, and the transpose of its inverse."""

import torch


def neo_hookean(deformation, mu: float = 1.3, bulk: float = 4.0):
    volume = torch.linalg.det(deformation)
    turned = torch.linalg.inv(deformation).transpose(1, 2)
    stretch = (deformation * deformation).sum((1, 2))
    logs = volume.clamp_min(1e-3).log()
    energy = 0.5 * mu * (stretch - 3) - mu * logs + 0.5 * bulk * logs * logs
    stress = mu * (deformation - turned) + bulk * logs[:, None, None] * turned
    return energy, stress


inputs = [torch.eye(3) + 0.2 * torch.randn(300000, 3, 3)]
