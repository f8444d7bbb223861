"""Softmax over the last axis, at the shapes the referee's design was measured with."""

import torch


def softmax(x):
    return torch.softmax(x, dim=1)


inputs = [torch.randn(4096, 4096)]
shapes = [(16, 16384), (4096, 1024), (4096, 32768), (64, 131072), (1, 1048576), (4096, 393216)]
