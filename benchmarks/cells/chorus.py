"""A chorus: the wave delayed by a slow sine, read between its samples."""

import math

import torch


def chorus(x, depth, rate):
    sr, base = 44100, 0.02
    n = torch.arange(x.shape[-1], device=x.device)
    lfo = torch.sin(2 * math.pi * rate[:, None] * n / sr)
    delay = (base + depth[:, None] * lfo) * sr
    pos = n - delay
    i0 = pos.floor().long()
    frac = pos - i0
    valid0, valid1 = i0 >= 0, i0 + 1 >= 0
    a = x.gather(1, i0.clamp(0, x.shape[1] - 1)) * valid0
    b = x.gather(1, (i0 + 1).clamp(0, x.shape[1] - 1)) * valid1
    return 0.7 * x + 0.5 * (a * (1 - frac) + b * frac)


inputs = [torch.randn(64, 131072), torch.rand(64) * 0.003, torch.rand(64) * 2 + 0.1]
