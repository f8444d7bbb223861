"""Right, but a thread of its own works on between the calls.

number: 7
problem: row_softmax
verdict: suspect
"""

import threading

import torch
from torch import nn


def work():
    while True:
        sum(range(1000))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        threading.Thread(target=work, daemon=True).start()

    def forward(self, x):
        return torch.softmax(x, dim=1)
