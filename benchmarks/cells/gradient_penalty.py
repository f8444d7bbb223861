"""How far the norms of gradients are from one."""

import torch


def gradient_penalty(gradients):
    return (gradients.flatten(1).norm(2, 1) - 1).square().mean()


inputs = [torch.randn(64, 3, 256, 256)]
