"""Saliency by the spectral residual: what an image's log spectrum has beside its own smooth shape."""

import torch
import torch.nn.functional as F


def spectral_residual(image):
    spectrum = torch.fft.fft2(image)
    amplitude = spectrum.abs().clamp(min=1e-6).log()
    phase = torch.angle(spectrum)
    smooth = F.avg_pool2d(amplitude[:, None], 3, stride=1, padding=1)[:, 0]
    residual = torch.polar((amplitude - smooth).exp(), phase)
    return torch.fft.ifft2(residual).abs().square()


inputs = [torch.rand(64, 256, 256)]
