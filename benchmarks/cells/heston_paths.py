"""Payoffs of a call under Heston's stochastic volatility, Euler steps with full truncation."""

import torch


def heston_paths(z1, z2, spot, variance, strike):
    steps = z1.shape[0]
    dt = 1.0 / steps
    rho, kappa, theta, xi = -0.7, 1.5, 0.04, 0.3
    log_s, v = torch.log(spot), variance.clone()
    for t in range(steps):
        v_pos = v.clamp(min=0)
        root = torch.sqrt(v_pos * dt)
        dw = rho * z1[t] + (1 - rho**2) ** 0.5 * z2[t]
        log_s = log_s - 0.5 * v_pos * dt + root * z1[t]
        v = v + kappa * (theta - v_pos) * dt + xi * root * dw
    return torch.relu(log_s.exp() - strike)


inputs = [
    torch.randn(32, 262144),
    torch.randn(32, 262144),
    torch.rand(262144) * 20 + 90,
    torch.full((262144,), 0.04),
    torch.full((262144,), 100.0),
]
