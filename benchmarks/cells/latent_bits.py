"""Bits of a learned image code under its Gaussian, and the code as it is decoded."""

import math

import torch


def cdf(x):
    return 0.5 * torch.erfc(-x * (2**-0.5))


def latent_bits(y, gaussian_params):
    scales, means = gaussian_params.chunk(2, 1)
    y_hat = torch.round(y - means) + means
    scales = torch.clamp(scales.exp(), min=0.11)
    values = torch.abs(y_hat - means)
    upper = cdf((0.5 - values) / scales)
    lower = cdf((-0.5 - values) / scales)
    likelihood = torch.clamp(upper - lower, min=1e-9)
    bits = torch.log(likelihood).sum(dim=(1, 2, 3)) / -math.log(2)
    return y_hat, bits


inputs = [torch.randn(32, 192, 32, 48) * 4, torch.randn(32, 384, 32, 48)]
