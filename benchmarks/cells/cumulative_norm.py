"""Cumulative layer norm of a causal separator, as in Conv-TasNet: mean and variance of all frames so far."""

import torch


class CumulativeNorm(torch.nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, energy, power):
        count = torch.arange(1, energy.shape[-1] + 1, device=energy.device)
        mean = torch.cumsum(energy, -1) / count
        variance = torch.cumsum(power, -1) / count - mean.square()
        return (energy - mean) / torch.sqrt(variance + self.eps)


inputs = [torch.randn(4096, 1000), torch.rand(4096, 1000) + 1]
