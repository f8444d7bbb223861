"""Muon: momentum and a step of Newton-Schulz on what it gives."""

import torch


def orthogonal_step(gradient, momentum):
    a, b, c = 3.4445, -4.7750, 2.0315
    momentum = momentum.lerp(gradient, 0.05)
    x = gradient.lerp(momentum, 0.95).bfloat16()
    x = x / (x.norm() + 1e-7)
    gram = x @ x.mT
    update = b * gram + c * gram @ gram
    return a * x + update @ x, momentum


inputs = [torch.randn(1024, 4096), torch.randn(1024, 4096)]
