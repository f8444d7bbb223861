"""Cross entropy of a segmentation of 21 classes."""

import torch
from torch.nn import functional as F


def pixel_cross_entropy(logits, target):
    return F.cross_entropy(logits, target)


inputs = [torch.randn(8, 21, 256, 256), torch.randint(0, 21, (8, 256, 256))]
