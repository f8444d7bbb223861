"""A bias for each channel and a GELU over images whose channels lie side by side."""

import torch
from torch.nn import functional as F


def channels_last_bias(x, bias):
    return F.gelu(x + bias[:, None, None])


inputs = [torch.randn(16, 64, 112, 112).to(memory_format=torch.channels_last), torch.randn(64)]
shapes = [((32, 256, 56, 56), (256,)), ((3, 96, 33, 31), (96,))]
