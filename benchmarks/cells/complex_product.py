"""Spectra, as pairs of numbers, times a filter."""

import torch


def complex_product(x, weight):
    real, imaginary = x[..., 0], x[..., 1]
    a, b = weight[..., 0], weight[..., 1]
    return torch.stack((real * a - imaginary * b, real * b + imaginary * a), -1)


inputs = [torch.randn(64, 256, 513, 2), torch.randn(256, 513, 2)]
