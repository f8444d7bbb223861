"""Every picture mixed with another of the batch, labels with theirs."""

import torch


def mixup(images, labels, partner, share):
    other = images[partner]
    by = share[:, None, None, None]
    return by * images + (1 - by) * other, share[:, None] * labels + (1 - share)[:, None] * labels[partner]


inputs = [
    torch.randn(256, 3, 224, 224),
    torch.rand(256, 1000),
    torch.randperm(256),
    torch.rand(256),
]
