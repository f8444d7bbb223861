"""Three steps of smoothing along rows, each over neighbours that the ends repeat."""

import torch


def smoothed_rows(x):
    for _ in range(3):
        left = torch.cat([x[:, :1], x[:, :-1]], 1)
        right = torch.cat([x[:, 1:], x[:, -1:]], 1)
        x = 0.25 * left + 0.5 * x + 0.25 * right
    return x


inputs = [torch.randn(16384, 1000)]
