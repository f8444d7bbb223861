"""Power of a spectrogram in decibels, as far as 80 below the loudest."""

import torch


def power_db(real, imaginary):
    power = 10 * torch.log10((real * real + imaginary * imaginary).clamp(min=1e-10))
    return torch.maximum(power, power.amax((1, 2), keepdim=True) - 80)


inputs = [torch.randn(32, 513, 1000), torch.randn(32, 513, 1000)]
