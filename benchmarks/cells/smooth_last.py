"""Mean of 3x3 neighbours, channels last, float16."""

import torch
from torch.nn import functional as F


def smooth_last(x):
    return F.avg_pool2d(x, 3, 1, 1)


inputs = [torch.randn(32, 128, 56, 56, dtype=torch.float16).to(memory_format=torch.channels_last)]
