"""Instance norm and leaky ReLU of channels-last images."""

import torch
from torch.nn import functional as F


def instance_norm_last(x):
    return F.leaky_relu(F.instance_norm(x), 0.2)


inputs = [torch.randn(16, 64, 128, 128).to(memory_format=torch.channels_last)]
