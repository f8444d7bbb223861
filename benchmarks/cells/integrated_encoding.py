"""Integrated positional encoding of conical frusta (mip-NeRF)."""

import torch


def integrated_encoding(origins, directions, t, radii):
    t0, t1 = t[..., :-1], t[..., 1:]
    mu, hw = (t0 + t1) / 2, (t1 - t0) / 2
    t_mean = mu + 2 * mu * hw**2 / (3 * mu**2 + hw**2)
    t_var = hw**2 / 3 - (4 / 15) * (hw**4 * (12 * mu**2 - hw**2)) / (3 * mu**2 + hw**2) ** 2
    r_var = radii**2 * (mu**2 / 4 + (5 / 12) * hw**2 - (4 / 15) * hw**4 / (3 * mu**2 + hw**2))
    d_mag = (directions**2).sum(-1, keepdim=True).clamp_min(1e-10)
    null = 1 - directions**2 / d_mag
    cov = t_var[..., None] * directions[:, None] ** 2 + r_var[..., None] * null[:, None]
    mean = origins[:, None] + directions[:, None] * t_mean[..., None]
    scales = 2.0 ** torch.arange(0, 10, device=t.device)
    y = (mean[..., None, :] * scales[:, None]).flatten(-2)
    v = (cov[..., None, :] * scales[:, None] ** 2).flatten(-2)
    x = torch.cat([y, y + 0.5 * torch.pi], -1)
    return torch.exp(-0.5 * torch.cat([v, v], -1)) * torch.sin(x)


inputs = [
    torch.randn(4096, 3),
    torch.randn(4096, 3),
    (torch.rand(4096, 65) * 4 + 2).sort(-1).values,
    torch.rand(4096, 1) * 0.01,
]
