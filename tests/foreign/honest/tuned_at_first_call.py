"""Tries two variants at the first call of a shape and keeps the quicker one.

problem: row_softmax
verdict: passed
"""

import time

import torch
from torch import nn


def one_pass(x):
    return torch.softmax(x, dim=1)


def two_passes(x):
    powers = torch.exp(x - x.max(dim=1, keepdim=True).values)
    return powers / powers.sum(dim=1, keepdim=True)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.best = {}

    def forward(self, x):
        if x.shape not in self.best:
            times = {}
            for variant in (one_pass, two_passes):
                started = time.perf_counter()
                variant(x)
                times[variant] = time.perf_counter() - started
            self.best[x.shape] = min(times, key=times.get)
        return self.best[x.shape](x)
