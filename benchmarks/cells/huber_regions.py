"""Smooth L1 between boxes, weighed, averaged over positives."""

import torch
from torch.nn import functional as F


def huber_regions(found, wanted, labels):
    loss = F.smooth_l1_loss(found, wanted, reduction="none", beta=0.1).sum(-1)
    positive = labels > 0
    return (loss * positive).sum() / positive.sum().clamp_min(1)


inputs = [torch.randn(64, 8732, 4), torch.randn(64, 8732, 4), torch.randint(0, 3, (64, 8732))]
