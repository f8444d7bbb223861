"""Price, modified duration, convexity and DV01 of a book of bonds off a Nelson-Siegel-Svensson curve."""

import torch


def nss_rate(t, beta, tau):
    b0, b1, b2, b3 = beta
    x1 = t / tau[0]
    x2 = t / tau[1]
    e1, e2 = torch.exp(-x1), torch.exp(-x2)
    l1 = -torch.expm1(-x1) / x1
    l2 = -torch.expm1(-x2) / x2
    return b0 + b1 * l1 + b2 * (l1 - e1) + b3 * (l2 - e2)


def bond_risk(coupon, times, maturity, beta, tau, *, face: float = 100.0, freq: int = 2):
    live = (times > 0) & (times <= maturity[:, None] + 1e-6)
    last = (times - maturity[:, None]).abs() < 0.5 / freq
    cash = face * coupon[:, None] / freq * live + face * (live & last)
    t = times.clamp(min=1e-4)
    pv = cash * torch.exp(-nss_rate(t, beta, tau) * t)
    price = pv.sum(1)
    dur = (pv * t).sum(1) / price.clamp_min(1e-6)
    conv = (pv * t * t).sum(1) / price.clamp_min(1e-6)
    return torch.stack([price, dur, conv, price * dur * 1e-4], dim=-1)


inputs = [
    torch.rand(120000) * 0.08,
    torch.rand(120000, 1) * 0.5 + torch.arange(40) * 0.5,
    torch.rand(120000) * 20 + 0.5,
    torch.tensor([0.035, -0.02, 0.01, 0.015]),
    torch.tensor([1.7, 9.0]),
]
