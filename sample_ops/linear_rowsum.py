"""A linear layer whose outputs are summed: most of the work can be thought away.

Why it is interesting: sum_j (x @ W.T + b)_j = x @ (sum_j W_j) + sum_j b_j. The matrix product of 2 * rows *
features * outputs operations becomes a matrix-vector product, and no compiler sees it: torch.compile still
runs the full product (2743 us for 4096 cubed on an H100).

Look for: the rewrite named on the card, the fall from compute-bound to memory-bound, and how its error
compares with that of the product it replaces.
"""

import torch
from torch.nn import functional as F


def linear_rowsum(x, weight, bias):
    return F.linear(x, weight, bias).sum(dim=1)


inputs = [torch.randn(1024, 2048), torch.randn(512, 2048), torch.randn(512)]
shapes = [((4096, 4096), (4096, 4096), (4096,)), ((128, 1000), (10, 1000), (10,))]
