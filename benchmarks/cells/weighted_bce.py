"""Binary cross entropy of logits with weights of positives."""

import torch
from torch.nn import functional as F


def weighted_bce(logits, target, weight):
    return F.binary_cross_entropy_with_logits(logits, target, pos_weight=weight)


inputs = [torch.randn(8192, 1000), torch.rand(8192, 1000).gt(0.9).float(), torch.rand(1000) + 1]
