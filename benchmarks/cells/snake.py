"""x + sin(ax)^2 / a with an a for every channel, as vocoders have it."""

import torch


def snake(x, alpha):
    alpha = alpha.exp()[None, :, None]
    return x + torch.sin(alpha * x).square() / (alpha + 1e-9)


inputs = [torch.randn(16, 256, 8192), torch.randn(256) * 0.1]
