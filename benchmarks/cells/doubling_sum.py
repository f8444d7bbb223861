"""Prefix sums along rows by doubling: each step adds what lies twice as far back."""

import torch
import torch.nn.functional as F


def doubling_sum(x):
    step = 1
    while step < x.shape[1]:
        x = x + F.pad(x[:, :-step], (step, 0))
        step *= 2
    return x


inputs = [torch.randn(16384, 1024)]
