"""A weight-normed strided convolution with a gate and a skip, channels of unit length, and pooling."""

import torch
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class StridedConvolutions(torch.nn.Module):
    def __init__(self, channels=32, wide=64):
        super().__init__()
        self.conv = weight_norm(torch.nn.Conv1d(channels, wide, 7, stride=2, padding=3))
        self.skip = torch.nn.Conv1d(channels, wide, 1, stride=2)
        self.gain = torch.nn.Parameter(torch.ones(wide, 1))

    def forward(self, x):
        y = F.silu(self.conv(x)) * self.gain + self.skip(x)
        y = y / y.norm(dim=1, keepdim=True).clamp_min(1e-6)
        return F.max_pool1d(y, 4, stride=2, padding=1)


inputs = [torch.randn(16, 32, 8192)]
