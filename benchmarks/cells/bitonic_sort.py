"""Rows of 64 sorted by a bitonic network: smaller and larger of pairs, 21 steps."""

import torch


def bitonic_sort(x):
    rows, columns = x.shape
    place = torch.arange(columns, device=x.device)
    size = 2
    while size <= columns:
        step = size // 2
        while step:
            other = x.view(rows, -1, 2, step).flip(2).reshape(rows, columns)
            keeps_smaller = ((place & step) == 0) == ((place & size) == 0)
            x = torch.where(keeps_smaller, torch.minimum(x, other), torch.maximum(x, other))
            step //= 2
        size *= 2
    return x


inputs = [torch.randn(262144, 64)]
