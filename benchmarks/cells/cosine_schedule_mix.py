"""Noise mixed into images by a schedule looked up per sample."""

import torch


def cosine_schedule_mix(images, noise, steps, alphas):
    a = alphas[steps].sqrt().view(-1, 1, 1, 1)
    b = (1 - alphas[steps]).sqrt().view(-1, 1, 1, 1)
    return a * images + b * noise


inputs = [
    torch.randn(128, 3, 256, 256),
    torch.randn(128, 3, 256, 256),
    torch.randint(0, 1000, (128,)),
    torch.rand(1000),
]
