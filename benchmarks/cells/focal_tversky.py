"""A loss between overlaps and crossings of masks."""

import torch


def focal_tversky(x, y):
    p = x.sigmoid().flatten(1)
    t = y.flatten(1)
    hit = (p * t).sum(1)
    ratio = (hit + 1) / (hit + 0.7 * (t * (1 - p)).sum(1) + 0.3 * ((1 - t) * p).sum(1) + 1)
    return ((1 - ratio) ** 0.75).mean()


inputs = [torch.randn(32, 1, 512, 512), torch.rand(32, 1, 512, 512).round()]
