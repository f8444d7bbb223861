"""An unsharp mask: what a Gaussian blur takes away is added, where it is more than a threshold."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Unsharp(nn.Module):
    def __init__(self, sigma=1.5, amount=0.8, threshold=0.02):
        super().__init__()
        places = torch.arange(-3, 4).float()
        kernel = torch.exp(-places.square() / (2 * sigma**2))
        self.register_buffer("kernel", kernel / kernel.sum())
        self.amount, self.threshold = amount, threshold

    def forward(self, x):
        channels = x.shape[1]
        rows = self.kernel.view(1, 1, 1, 7).expand(channels, 1, 1, 7)
        columns = self.kernel.view(1, 1, 7, 1).expand(channels, 1, 7, 1)
        blurred = F.conv2d(F.pad(x, (3, 3, 3, 3), mode="reflect"), rows, groups=channels)
        blurred = F.conv2d(blurred, columns, groups=channels)
        detail = x - blurred
        sharp = x + self.amount * detail
        return torch.where(detail.abs() > self.threshold, sharp, x).clamp(0, 1)


inputs = [torch.rand(16, 3, 512, 512)]
