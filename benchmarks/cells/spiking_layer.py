"""Leaky neurons that fire and are reset, over the steps of a stimulus; spikes and their rate."""

import torch
from torch import nn


class SpikingLayer(nn.Module):
    def __init__(self, units=2048, tau=2.0, threshold=1.0, hard_reset=True):
        super().__init__()
        self.decay = nn.Parameter(torch.sigmoid(torch.randn(units)))
        self.threshold, self.hard_reset = threshold, hard_reset

    def forward(self, current):
        v = torch.zeros_like(current[0])
        spikes = torch.empty_like(current)
        for t in range(current.size(0)):
            v = v * self.decay + current[t] * (1 - self.decay)
            fired = (v >= self.threshold).to(v.dtype)
            v = v * (1 - fired) if self.hard_reset else v - fired * self.threshold
            spikes[t] = fired
        return spikes, spikes.mean(0)


inputs = [torch.randn(16, 256, 2048) * 3]
