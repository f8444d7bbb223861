"""Huber loss of a batch."""

import torch
from torch.nn import functional as F


def huber_loss(x, y):
    return F.smooth_l1_loss(x, y, beta=0.5)


inputs = [torch.randn(8192, 4096), torch.randn(8192, 4096)]
