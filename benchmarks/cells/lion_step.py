"""A step of Lion."""

import torch


def lion_step(weight, gradient, moment):
    update = torch.sign(0.9 * moment + 0.1 * gradient)
    return weight * (1 - 3e-5) - 3e-4 * update, 0.99 * moment + 0.01 * gradient


inputs = [torch.randn(4096, 4096), torch.randn(4096, 4096), torch.randn(4096, 4096)]
