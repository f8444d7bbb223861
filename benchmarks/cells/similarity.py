"""Cosines of every pair of a few vectors."""

import torch
from torch.nn import functional as F


def similarity(x):
    normal = F.normalize(x, dim=-1)
    return (normal[:, None] * normal[None]).sum(-1)


inputs = [torch.randn(512, 128)]
