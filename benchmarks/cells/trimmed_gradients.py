"""Federated learning with liars: of each weight's gradients from ten clients the two ends are left out."""

import torch


def trimmed_gradients(gradients, weight, velocity):
    ordered = gradients.sort(dim=0).values
    mean = ordered[2:-2].mean(dim=0)
    velocity = 0.9 * velocity + mean
    return weight - 0.01 * velocity, velocity


inputs = [torch.randn(10, 1024, 1024), torch.randn(1024, 1024), torch.randn(1024, 1024)]
