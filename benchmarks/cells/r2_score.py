"""How much of each target's variance the predictions explain (R squared)."""

import torch


def r2_score(predicted, target):
    left = (target - predicted).square().sum(0)
    total = (target - target.mean(0)).square().sum(0)
    return 1 - left / total


inputs = [torch.randn(65536, 128), torch.randn(65536, 128)]
