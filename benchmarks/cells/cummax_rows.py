"""Running maximum of rows."""

import torch


def cummax_rows(x):
    return torch.cummax(x, -1).values


inputs = [torch.randn(4096, 4096)]
