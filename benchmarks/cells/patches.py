"""Images to rows of patches 16x16."""

import torch


def patches(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 16, 16, w // 16, 16).permute(0, 2, 4, 3, 5, 1).reshape(n, -1, 256 * c)


inputs = [torch.randn(64, 3, 224, 224)]
