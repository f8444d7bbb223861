"""Running totals of eight numbers each: a million short rows, which is only memory to move."""

import torch


class RunningOctets(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=-1)


inputs = [torch.randn(1048576, 8)]
