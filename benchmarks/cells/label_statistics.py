"""How many logits are above their row's mean, and by how much."""

import torch
from torch.nn import functional as F


def label_statistics(x):
    above = x - x.mean(-1, keepdim=True)
    return (above > 0).sum(-1), F.relu(above).sum(-1)


inputs = [torch.randn(8192, 4096)]
