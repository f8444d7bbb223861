"""American put prices, deltas and gammas on a Cox-Ross-Rubinstein tree, many contracts at once."""

import torch


class AmericanPut(torch.nn.Module):
    def __init__(self, steps=24):
        super().__init__()
        self.steps = steps
        self.register_buffer("levels", torch.arange(steps + 1, dtype=torch.float32) * 2 - steps)

    def forward(self, spot, strike, rate, sigma, maturity):
        n = self.steps
        dt = maturity / n
        up = torch.exp(sigma * torch.sqrt(dt))
        down = 1 / up
        growth = torch.exp(rate * dt)
        p = ((growth - down) / (up - down)).clamp(0.0, 1.0).unsqueeze(1)
        disc = (1 / growth).unsqueeze(1)
        prices = spot[:, None] * torch.pow(up[:, None], self.levels)
        k = strike[:, None]
        value = torch.relu(k - prices)
        second = first = None
        for step in range(n - 1, -1, -1):
            cont = disc * (p * value[:, 1:] + (1 - p) * value[:, :-1])
            prices = prices[:, 1:] * down[:, None]
            value = torch.maximum(cont, k - prices)
            if step == 2:
                second = (prices, value)
            if step == 1:
                first = (prices, value)
        s1, v1 = first
        s2, v2 = second
        delta = (v1[:, 1] - v1[:, 0]) / (s1[:, 1] - s1[:, 0])
        hi = (v2[:, 2] - v2[:, 1]) / (s2[:, 2] - s2[:, 1])
        lo = (v2[:, 1] - v2[:, 0]) / (s2[:, 1] - s2[:, 0])
        gamma = 2 * (hi - lo) / (s2[:, 2] - s2[:, 0])
        theta = (v2[:, 1] - value[:, 0]) / (2 * dt)
        return value[:, 0], delta, gamma, theta


inputs = [
    torch.rand(200000) * 50 + 75,
    torch.rand(200000) * 50 + 75,
    torch.rand(200000) * 0.05,
    torch.rand(200000) * 0.4 + 0.1,
    torch.rand(200000) * 1.9 + 0.1,
]
