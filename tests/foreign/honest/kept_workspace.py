"""Keeps its workspace from call to call and writes all of it before it reads.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspace = None

    def forward(self, x):
        if self.workspace is None or self.workspace.shape != x.shape:
            self.workspace = torch.empty_like(x)
        torch.sub(x, x.max(dim=1, keepdim=True).values, out=self.workspace).exp_()
        return self.workspace / self.workspace.sum(dim=1, keepdim=True)
