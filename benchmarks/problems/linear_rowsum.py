"""A linear layer whose outputs are summed, 4096 cubed."""

import torch
from torch.nn import functional as F


def linear_rowsum(x, weight, bias):
    return F.linear(x, weight, bias).sum(dim=1)


inputs = [torch.randn(4096, 4096), torch.randn(4096, 4096), torch.randn(4096)]
