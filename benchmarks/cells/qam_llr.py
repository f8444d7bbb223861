"""Soft demapping of 16-QAM: an equaliser, then log-likelihood ratios of the four bits, by logaddexp."""

from functools import reduce

import torch
import torch.nn as nn


class QamLLR(nn.Module):
    def __init__(self):
        super().__init__()
        gray = torch.tensor([-3.0, -1.0, 3.0, 1.0]) / 10**0.5
        self.register_buffer("points", torch.complex(gray.repeat_interleave(4), gray.repeat(4)))

    def forward(self, received, channel, noise_var):
        power = channel.real**2 + channel.imag**2
        z = received * channel.conj() / power.clamp(min=1e-9)
        scale = power / noise_var
        metric = []
        for p in self.points:
            diff = z - p
            metric.append(-(diff.real.square() + diff.imag.square()) * scale)
        llrs = []
        for bit in (3, 2, 1, 0):
            zeros = reduce(torch.logaddexp, [m for i, m in enumerate(metric) if not (i >> bit) & 1])
            ones = reduce(torch.logaddexp, [m for i, m in enumerate(metric) if (i >> bit) & 1])
            llrs.append(zeros - ones)
        return torch.stack(llrs, dim=-1).clamp(-20, 20)


inputs = [
    torch.randn(14, 4, 12288, dtype=torch.complex64),
    torch.randn(14, 4, 12288, dtype=torch.complex64),
    torch.rand(14, 4, 1) * 0.2 + 0.02,
]
