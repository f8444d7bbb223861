"""How many pixels lie near each of 32 levels, softly."""

import torch


def soft_histogram(x):
    levels = torch.linspace(0, 1, 32, device=x.device)
    near = torch.exp(-0.5 * ((x[:, None] - levels[:, None]) / 0.03).square())
    return near.sum(-1) / x.shape[1]


inputs = [torch.rand(64, 65536)]
