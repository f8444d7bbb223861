"""Second-order crosses of a factorisation machine: all pairs of fields in linear time."""

import torch


def factor_machine(embedded, linear):
    square_of_sum = embedded.sum(dim=1).pow(2)
    sum_of_square = embedded.pow(2).sum(dim=1)
    crosses = 0.5 * (square_of_sum - sum_of_square).sum(dim=1, keepdim=True)
    return torch.sigmoid(linear.sum(1, keepdim=True) + crosses).squeeze(1)


inputs = [torch.randn(8192, 39, 64) * 0.1, torch.randn(8192, 39) * 0.1]
