"""A convolution block: conv, bias, ReLU, 2 x 2 max pooling.

Why it is interesting: cuDNN's convolution in IEEE float32 is called first, and the kernel's card counts the
call and shows its share. Of three channels it leaves room: the playbook writes a convolution of its own, with
the bias, the ReLU and the pooling in it. In eager mode these make four more passes over a tensor of 205
million elements, which such a kernel never writes.

Look for: the library share of the first branches, and where it goes; the branch whose kernel pools what it
has in registers, and the bytes that it moves.
"""

import torch
from torch import nn
from torch.nn import functional as F


class ConvBiasReluPool(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, kernel_size=3, padding=1)

    def forward(self, x):
        return F.max_pool2d(torch.relu(self.conv(x)), 2)


init_inputs = [3, 64]
inputs = [torch.randn(64, 3, 224, 224)]
shapes = [(1, 3, 64, 64), (8, 3, 32, 32)]
