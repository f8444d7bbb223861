"""Griffin-Lim's projection: keep the phase, with momentum, and put the known magnitude in."""

import torch


def project(rebuilt, previous, magnitude):
    angles = rebuilt - 0.99 / 1.99 * previous
    angles = angles / (angles.abs() + 1e-16)
    return magnitude * angles


inputs = [
    torch.randn(8, 513, 1000, dtype=torch.cfloat),
    torch.randn(8, 513, 1000, dtype=torch.cfloat),
    torch.rand(8, 513, 1000),
]
