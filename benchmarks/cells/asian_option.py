"""Asian and knock-out payoffs of simulated paths: exp of cumulated increments, mean, minimum, discounted."""

import torch


class AsianOption(torch.nn.Module):
    def __init__(self, s0=100.0, strike=102.0, barrier=80.0, r=0.03, sigma=0.2, steps=77):
        super().__init__()
        self.s0, self.strike, self.barrier, self.r, self.sigma = s0, strike, barrier, r, sigma
        self.dt = 1.0 / steps

    def forward(self, z):
        # [steps, paths]
        drift = (self.r - 0.5 * self.sigma**2) * self.dt
        logs = torch.cumsum(drift + self.sigma * self.dt**0.5 * z, dim=0)
        s = self.s0 * torch.exp(logs)
        avg = s.mean(0)
        alive = s.amin(0) > self.barrier
        disc = torch.exp(torch.tensor(-self.r, device=z.device))
        asian = disc * torch.relu(avg - self.strike)
        down_out = disc * torch.where(alive, (s[-1] - self.strike).clamp(min=0), 0.0)
        pay = torch.stack([asian, down_out])
        return pay.mean(1), pay.std(1) / z.shape[1] ** 0.5, pay


inputs = [torch.randn(77, 100003)]
