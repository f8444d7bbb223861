"""Clipped policy loss."""

import torch


def policy_loss(new, old, advantage):
    ratio = torch.exp(new - old)
    return -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()


inputs = [torch.randn(1024, 2048), torch.randn(1024, 2048), torch.randn(1024, 2048)]
