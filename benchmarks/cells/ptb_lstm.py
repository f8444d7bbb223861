"""The medium language model of Zaremba et al. (2014): two LSTM layers of 650 units, 20 x 35 words."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10000, 650)
        self.layers = nn.LSTM(650, 650, 2)
        self.head = nn.Linear(650, 10000)

    def forward(self, words, h, c):
        out, (last_h, last_c) = self.layers(self.embedding(words), (h, c))
        return torch.log_softmax(self.head(out), -1), last_h, last_c


model = Model()
inputs = [torch.randint(0, 10000, (35, 20)), torch.randn(2, 20, 650), torch.randn(2, 20, 650)]
