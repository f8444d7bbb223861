"""The class of every pixel."""

import torch


def pixel_argmax(logits):
    return logits.argmax(1)


inputs = [torch.randn(8, 21, 512, 512)]
