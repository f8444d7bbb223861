"""A gradient scaled to norm 1 at most."""

import torch


def clip_gradient(g):
    return g * torch.clamp(1 / (g.norm() + 1e-6), max=1.0)


inputs = [torch.randn(4096, 11008)]
