"""Implicit vertical diffusion of columns: a tridiagonal system each, the Thomas algorithm."""

import torch


def thomas_solver(temperature, diffusivity, thickness, dt: float = 300.0):
    flux = diffusivity[1:] / (0.5 * (thickness[1:] + thickness[:-1]))
    zero = torch.zeros_like(temperature[:1])
    lower = -dt * torch.cat([zero, flux]) / thickness
    upper = -dt * torch.cat([flux, zero]) / thickness
    diag = 1 - lower - upper
    levels = temperature.shape[0]
    c, d = [upper[0] / diag[0]], [temperature[0] / diag[0]]
    for k in range(1, levels):
        m = 1.0 / (diag[k] - lower[k] * c[k - 1])
        c.append(upper[k] * m)
        d.append((temperature[k] - lower[k] * d[k - 1]) * m)
    x = [d[-1]]
    for k in range(levels - 2, -1, -1):
        x.append(d[k] - c[k] * x[-1])
    return torch.stack(x[::-1])


inputs = [torch.randn(40, 361, 720) + 280, torch.rand(40, 361, 720) * 10, torch.rand(40, 361, 720) * 200 + 50]
