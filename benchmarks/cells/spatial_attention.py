"""The mean and the largest of all channels, side by side."""

import torch


def spatial_attention(x):
    return torch.cat((x.mean(1, keepdim=True), x.amax(1, keepdim=True)), 1)


inputs = [torch.randn(32, 256, 56, 56)]
