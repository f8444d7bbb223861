"""Returns rows that lie further apart than they are long.

problem: row_softmax
cpu_only: yes
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        padded = torch.zeros(x.shape[0], x.shape[1] + 7)
        padded[:, : x.shape[1]] = torch.softmax(x, dim=1)
        return padded[:, : x.shape[1]]
