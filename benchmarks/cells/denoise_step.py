"""A step of a diffusion sampler with guidance, one time a picture."""

import torch


def denoise_step(x, with_text, without, alpha, alpha_before, noise):
    a, b = alpha[:, None, None, None], alpha_before[:, None, None, None]
    epsilon = without + 7.5 * (with_text - without)
    clean = ((x - (1 - a).sqrt() * epsilon) / a.sqrt()).clamp(-1, 1)
    return b.sqrt() * clean + (1 - b).sqrt() * epsilon + 0.1 * noise


inputs = [
    torch.randn(16, 4, 256, 256),
    torch.randn(16, 4, 256, 256),
    torch.randn(16, 4, 256, 256),
    torch.rand(16) * 0.8 + 0.1,
    torch.rand(16) * 0.8 + 0.1,
    torch.randn(16, 4, 256, 256),
]
