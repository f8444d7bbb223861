"""Columns with mean 0 and variance 1."""

import torch


def column_standardized(x):
    return (x - x.mean(0)) / (x.std(0) + 1e-6)


inputs = [torch.randn(65536, 256)]
