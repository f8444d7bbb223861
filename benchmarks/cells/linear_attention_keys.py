"""Keys of a linear attention made positive, and their sum over the sequence."""

import torch
from torch.nn import functional as F


def linear_attention_keys(keys):
    positive = F.elu(keys) + 1
    return positive, positive.sum(2)


inputs = [torch.randn(16, 16, 2048, 64)]
