"""The gates of an LSTM cell."""

import torch


def lstm_cell(gates, c):
    i, f, g, o = gates.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


inputs = [torch.randn(512, 4096), torch.randn(512, 1024)]
