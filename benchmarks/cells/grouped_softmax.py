"""Rows of 32 categories with 32 classes each, as world models have them, and their straight-through mix."""

import torch


def grouped_softmax(logits):
    shares = logits.unflatten(-1, (32, 32)).softmax(-1)
    return (0.99 * shares + 0.01 / 32).flatten(-2)


inputs = [torch.randn(32768, 1024)]
