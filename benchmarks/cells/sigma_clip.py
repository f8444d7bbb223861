"""Exposures of a telescope, averaged without what lies three deviations off."""

import torch


def sigma_clip(frames):
    mean, std = frames.mean(0), frames.std(0)
    keep = (frames - mean).abs() <= 3 * std
    count = keep.sum(0).clamp(min=1)
    stacked = torch.where(keep, frames, torch.zeros_like(frames)).sum(0) / count
    return stacked, std / count.sqrt()


inputs = [torch.randn(24, 1024, 1024)]
