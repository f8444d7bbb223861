"""The place of the largest of every column."""

import torch


def argmax_down(x):
    return x.argmax(0)


inputs = [torch.randn(8192, 4096)]
