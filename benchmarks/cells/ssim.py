"""Structural similarity by windows of 7x7."""

import torch
from torch.nn import functional as F


def ssim(x, y):
    def smooth(image):
        return F.avg_pool2d(image, 7, 1)

    mean_x, mean_y = smooth(x), smooth(y)
    var_x, var_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    both = smooth(x * y) - mean_x * mean_y
    top = (2 * mean_x * mean_y + 1e-4) * (2 * both + 9e-4)
    return (top / ((mean_x**2 + mean_y**2 + 1e-4) * (var_x + var_y + 9e-4))).mean()


inputs = [torch.rand(16, 3, 256, 256), torch.rand(16, 3, 256, 256)]
