"""Counts of classes hit, missed and claimed."""

import torch


def confusion(logits, target):
    found = logits.argmax(1)
    classes = torch.arange(logits.shape[1], device=logits.device)[:, None]
    said, meant = found.flatten() == classes, target.flatten() == classes
    return (said & meant).sum(1), said.sum(1), meant.sum(1)


inputs = [torch.randn(8, 21, 256, 256), torch.randint(0, 21, (8, 256, 256))]
