"""The share of right answers."""

import torch


def accuracy(logits, target):
    return (logits.argmax(-1) == target).float().mean()


inputs = [torch.randn(8192, 1000), torch.randint(0, 1000, (8192,))]
