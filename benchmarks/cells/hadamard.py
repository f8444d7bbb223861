"""A Hadamard transform of rows of 256, by halves."""

import torch


def hadamard(x):
    rows, columns = x.shape
    step = 1
    while step < columns:
        pairs = x.view(rows, columns // (2 * step), 2, step)
        x = torch.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), 2).view(
            rows, columns
        )
        step *= 2
    return x / columns**0.5


inputs = [torch.randn(65536, 256)]
