"""Brings a Model, inputs and constructor arguments of its own, on which it would be right.

number: 14
problem: row_softmax
verdict: mismatch
"""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)


class ModelNew(Model):
    pass


def get_inputs():
    return [torch.zeros(1, 1)]


def get_init_inputs():
    return []


def compare(got, bound, output=0):
    return None
