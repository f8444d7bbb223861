"""The middle of a MobileNet block: a depthwise convolution, batch norm with fixed statistics, ReLU6.

Why it is interesting: each channel has nine weights of its own, so a result takes nine multiply-adds and
moves 8 bytes: this convolution waits for memory, not for arithmetic. Libraries are built for convolutions
that mix channels, which are matrix products, and take several times as long as a copy here.

Look for: how many loads a result takes, when neighbours share eight of their nine inputs; and the border.
"""

import torch
from torch import nn
from torch.nn import functional as F


class DepthwiseConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1, groups=channels, bias=False)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu6(self.norm(self.conv(x)))


init_inputs = [96]
inputs = [torch.randn(32, 96, 112, 112)]
shapes = [(64, 96, 56, 56), (1, 96, 112, 112), (16, 96, 28, 28)]
