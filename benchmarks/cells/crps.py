"""The continuous ranked probability score of an ensemble of 16, fair, a mean a variable."""

import torch


def crps(ensemble, truth):
    members = ensemble.shape[1]
    skill = (ensemble - truth.unsqueeze(1)).abs().mean(1)
    pairs = (ensemble.unsqueeze(1) - ensemble.unsqueeze(2)).abs().sum((1, 2))
    spread = pairs / (2 * members * (members - 1))
    return (skill - spread).mean(dim=(0, 2, 3))


inputs = [torch.randn(2, 16, 8, 181, 360), torch.randn(2, 8, 181, 360)]
