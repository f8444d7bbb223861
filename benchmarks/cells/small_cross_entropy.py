"""Cross entropy of one batch of ImageNet."""

import torch
from torch.nn import functional as F


def small_cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


inputs = [torch.randn(256, 1000), torch.randint(0, 1000, (256,))]
