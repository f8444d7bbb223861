"""Magnitude and phase of spectra that are pairs of numbers."""

import torch


def spectrum_power(x):
    real, imaginary = x[..., 0], x[..., 1]
    return (real.square() + imaginary.square() + 1e-9).sqrt(), torch.atan2(imaginary, real)


inputs = [torch.randn(32, 513, 1024, 2)]
