"""Intensity behind a pupil whose phase is a sum of Zernike modes, at several defocuses."""

import torch


def wavefront(coefficients, defocus):
    n = 256
    axis = torch.linspace(-1, 1, n, device=coefficients.device)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    r2 = x**2 + y**2
    theta = torch.atan2(y, x)
    r = r2.sqrt()
    modes = torch.stack(
        [
            2 * r * torch.cos(theta),
            2 * r * torch.sin(theta),
            3**0.5 * (2 * r2 - 1),
            6**0.5 * r2 * torch.sin(2 * theta),
            6**0.5 * r2 * torch.cos(2 * theta),
            8**0.5 * (3 * r2 * r - 2 * r) * torch.sin(theta),
            5**0.5 * (6 * r2**2 - 6 * r2 + 1),
        ]
    )
    aperture = (r2 <= 1).float()
    phase = torch.einsum("bk,kij->bij", coefficients, modes) + defocus[:, None, None] * r2
    field = torch.polar(aperture.expand_as(phase).contiguous(), phase)
    psf = torch.fft.fftshift(torch.fft.fft2(field), dim=(-2, -1)).abs() ** 2
    return psf / psf.sum(dim=(-2, -1), keepdim=True)


inputs = [torch.randn(32, 7) * 0.2, torch.randn(32)]
