"""Spectral convergence and log-magnitude loss of speech synthesis."""

import torch
import torch.nn.functional as F


def stft_loss(x, y, window):
    x_mag = torch.stft(x, 1024, 256, 1024, window, return_complex=True).abs().clamp(min=1e-7)
    y_mag = torch.stft(y, 1024, 256, 1024, window, return_complex=True).abs().clamp(min=1e-7)
    convergence = torch.norm(y_mag - x_mag, p="fro") / torch.norm(y_mag, p="fro")
    return convergence + F.l1_loss(torch.log(y_mag), torch.log(x_mag))


inputs = [torch.randn(16, 48000), torch.randn(16, 48000), torch.hann_window(1024)]
