"""Phones of speech: three LSTM layers in both directions over 300 frames of 80 filters, and scores of 48."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(80, 256, 3, batch_first=True, bidirectional=True)
        self.head = nn.Linear(512, 48)

    def forward(self, frames):
        return torch.log_softmax(self.head(self.layers(frames)[0]), -1)


model = Model()
inputs = [torch.randn(8, 300, 80)]
