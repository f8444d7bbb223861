"""Errors of predicted depths where the true one is known: rows that a mask chooses."""

import torch
from torch.nn import functional as F


def masked_depth_errors(predicted, true):
    known = true > 0.1
    p, t = predicted[known].clamp(min=1e-3), true[known]
    ratio = torch.maximum(p / t, t / p)
    away = p.log() - t.log()
    return (
        (away.square().mean() - 0.5 * away.mean().square()).sqrt(),
        ((p - t).abs() / t).mean(),
        F.mse_loss(p, t).sqrt(),
        (ratio < 1.25).float().mean(),
        ratio.max(),
    )


inputs = [torch.rand(16, 480, 640) * 9 + 0.2, torch.rand(16, 480, 640) * 10]
