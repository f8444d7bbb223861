"""Spectra, as pairs of numbers, to magnitudes on a scale of logarithms and phases."""

import torch


def polar(x):
    real, imaginary = x[..., 0], x[..., 1]
    magnitude = torch.log1p(torch.sqrt(real * real + imaginary * imaginary))
    return torch.stack((magnitude, torch.atan2(imaginary, real)), -1)


inputs = [torch.randn(32, 257, 4096, 2)]
