"""Four levels of a Haar wavelet transform: means of pairs in front, their differences behind."""

import torch


def haar(x):
    rows, columns = x.shape
    for level in range(4):
        means, rest = x[:, : columns >> level], x[:, columns >> level :]
        pairs = means.reshape(rows, -1, 2)
        means, details = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        x = torch.cat([means * 0.5**0.5, details * 0.5**0.5, rest], 1)
    return x


inputs = [torch.randn(32768, 512)]
