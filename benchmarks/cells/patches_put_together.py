"""Overlapping patches that a network has made, put together: each pixel is a weighted mean of them."""

import torch
import torch.nn.functional as F

SIZE, PATCH, STRIDE = 256, 16, 8


def put_together(patches, window):
    """``patches`` (batch, 3 * 16 * 16, places), each weighted by a window that fades towards its edges."""
    batch, _, places = patches.shape
    weighted = patches.view(batch, 3, PATCH * PATCH, places) * window.view(1, 1, -1, 1)
    total = F.fold(weighted.view(batch, -1, places), SIZE, PATCH, stride=STRIDE)
    weights = window.view(1, -1, 1).expand(1, -1, places)
    return total / F.fold(weights, SIZE, PATCH, stride=STRIDE)


inputs = [torch.randn(8, 3 * PATCH * PATCH, 31 * 31), torch.rand(PATCH * PATCH) + 0.1]
