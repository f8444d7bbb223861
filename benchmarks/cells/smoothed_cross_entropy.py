"""Cross entropy with smoothed labels."""

import torch
from torch.nn import functional as F


def smoothed_cross_entropy(logits, target):
    return F.cross_entropy(logits, target, label_smoothing=0.1)


inputs = [torch.randn(2048, 32000), torch.randint(0, 32000, (2048,))]
