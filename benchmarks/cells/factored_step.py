"""Second moments by rows and columns, as Adafactor keeps them."""

import torch


def factored_step(gradient, rows, columns):
    square = gradient**2 + 1e-30
    rows = 0.99 * rows + 0.01 * square.mean(-1)
    columns = 0.99 * columns + 0.01 * square.mean(-2)
    scale = (rows / rows.mean()).rsqrt()[:, None] * columns.rsqrt()
    return gradient * scale, rows, columns


inputs = [torch.randn(4096, 4096), torch.rand(4096), torch.rand(4096)]
