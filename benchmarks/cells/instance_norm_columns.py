"""A batched product, an instance norm of its rows with a residual, and the mean down the columns."""

import torch
from torch.nn import functional as F


class InstanceNormColumns(torch.nn.Module):
    def __init__(self, rows=128):
        super().__init__()
        self.norm = torch.nn.InstanceNorm1d(rows, affine=True)

    def forward(self, a, b, residual):
        x = self.norm(torch.bmm(a, b.transpose(1, 2))) + residual
        return F.leaky_relu(F.hardtanh(x, -2, 2), 0.2).sum(dim=1) / x.shape[1]


inputs = [torch.randn(32, 128, 256), torch.randn(32, 512, 256), torch.randn(32, 128, 512)]
