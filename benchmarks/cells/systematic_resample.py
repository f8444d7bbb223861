"""Particle filters in a batch: weights, effective size, systematic resampling where it is low."""

import torch


def systematic_resample(log_w, particles, u, ess_ratio=0.5):
    _b, n, _d = particles.shape
    w = torch.softmax(log_w, dim=1)
    ess = 1.0 / w.square().sum(1)
    cdf = w.cumsum(1)
    cdf = cdf / cdf[:, -1:]
    ticks = (torch.arange(n, device=w.device) + u) / n
    idx = torch.searchsorted(cdf, ticks).clamp(max=n - 1)
    low = ess < ess_ratio * n
    idx = torch.where(low[:, None], idx, torch.arange(n, device=w.device))
    new = torch.take_along_dim(particles, idx[:, :, None], dim=1)
    new_w = torch.where(low[:, None], torch.full_like(w, 1.0 / n), w)
    mean = (new_w[..., None] * new).sum(1)
    return new, new_w.log(), mean, ess


inputs = [
    torch.randn(400, 4096) * torch.linspace(0.3, 2, 400)[:, None],
    torch.randn(400, 4096, 3),
    torch.rand(400, 1),
]
