"""Batch norm in training and ReLU."""

import torch
from torch.nn import functional as F


def batch_norm_train(x, weight, bias):
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True))


inputs = [torch.randn(32, 128, 56, 56), torch.randn(128), torch.randn(128)]
