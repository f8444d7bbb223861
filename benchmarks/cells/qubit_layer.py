"""A layer of a circuit on 12 qubits: a phase of each basis state, then probabilities."""

import torch


def layer(state, theta, signs):
    phase = (signs * theta[:, None]).sum(0)
    turned = state * torch.exp(-0.5j * phase)
    probabilities = turned.abs() ** 2
    return turned, probabilities @ signs.T


inputs = [
    torch.randn(256, 4096, dtype=torch.cfloat),
    torch.randn(12),
    torch.randint(0, 2, (12, 4096)).float() * 2 - 1,
]
