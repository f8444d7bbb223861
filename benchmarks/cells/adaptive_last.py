"""Images to 7x7, channels last, float16."""

import torch
from torch.nn import functional as F


def adaptive_last(x):
    return F.adaptive_avg_pool2d(x, 7)


inputs = [torch.randn(64, 512, 28, 28, dtype=torch.float16).to(memory_format=torch.channels_last)]
