"""The gain of a compressor with a soft knee, in decibels, with make-up gain and a dry mix."""

import torch


def soft_knee(audio, threshold, ratio, makeup):
    knee, mix = 6.0, 0.8
    level = 20 * torch.log10(audio.abs().amax(dim=1, keepdim=True).clamp_min(1e-5))
    threshold, ratio, makeup = (p.view(-1, 1, 1) for p in (threshold, ratio, makeup))
    over = level - threshold
    gain = torch.zeros_like(over)
    in_knee = 2 * over.abs() <= knee
    above = 2 * over > knee
    gain = torch.where(in_knee, (1 / ratio - 1) * (over + knee / 2) ** 2 / (2 * knee), gain)
    gain = torch.where(above, (1 / ratio - 1) * over, gain)
    wet = audio * torch.pow(10.0, (gain + makeup) / 20)
    return torch.lerp(audio, wet, mix).clamp_(-1, 1)


inputs = [torch.randn(64, 2, 131072) * 0.3, -torch.rand(64) * 30, torch.rand(64) * 6 + 2, torch.rand(64) * 6]
