"""A batch norm, softsign and a diagonal, and each channel joined with the one before it."""

import torch
from torch.nn import functional as F


class SoftsignNeighbours(torch.nn.Module):
    def __init__(self, width=512, wide=640):
        super().__init__()
        self.linear = torch.nn.Linear(width, wide)
        self.norm = torch.nn.BatchNorm1d(wide)
        self.diagonal = torch.nn.Parameter(torch.rand(wide))

    def forward(self, x):
        y = F.softsign(self.norm(self.linear(x))) @ torch.diag(self.diagonal)
        y = y - y.std(dim=1, unbiased=False, keepdim=True) * 0.1
        return torch.logaddexp(y, y.roll(1, dims=1))


inputs = [torch.randn(8192, 512)]
