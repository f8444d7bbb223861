"""PReLU with a slope a channel, channels last, float16."""

import torch
from torch.nn import functional as F


def prelu_channels(x, slope):
    return F.prelu(x, slope)


inputs = [
    torch.randn(32, 256, 56, 56, dtype=torch.float16).to(memory_format=torch.channels_last),
    torch.rand(256, dtype=torch.float16),
]
