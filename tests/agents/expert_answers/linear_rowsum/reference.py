import torch
from torch.nn import functional as F


def linear_rowsum(x, weight, bias):
    return F.linear(x, weight, bias).sum(dim=1)


inputs = [torch.randn(32, 48), torch.randn(24, 48), torch.randn(24)]
