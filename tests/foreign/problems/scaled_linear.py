"""A linear layer with a norm's gain behind it: parameters whose fresh values (ones) a cheat may count on."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.linear = nn.Linear(features, hidden)
        self.gain = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.gain


def get_inputs():
    return [torch.randn(24, 40)]


def get_init_inputs():
    return [40, 28]
