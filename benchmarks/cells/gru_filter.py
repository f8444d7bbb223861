"""A GRU along one signal: 500 steps of 80 channels, 512 units, and what each step is taken for."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(80, 512)
        self.head = nn.Linear(512, 16)

    def forward(self, signal, state):
        out, state = self.layer(signal, state)
        return torch.sigmoid(self.head(out)), state


model = Model()
inputs = [torch.randn(500, 1, 80), torch.randn(1, 1, 512)]
