"""Images from red, green and blue to luma and chroma."""

import torch


def ycbcr(image):
    r, g, b = image.unbind(1)
    y = 0.299 * r + 0.587 * g + 0.114 * b
    return torch.stack((y, (b - y) * 0.564 + 0.5, (r - y) * 0.713 + 0.5), 1)


inputs = [torch.rand(64, 3, 512, 512)]
