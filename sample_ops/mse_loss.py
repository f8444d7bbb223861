"""Mean squared error: two large tensors in, one number out.

Why it is interesting: a full reduction. One block is far too slow, so the work must be split over the grid
and combined: atomics (a different rounding every run), a second launch, or the last block to finish.

Look for: launches, whether repeated runs are bit-equal, and the error of summing 2**24 terms in float32.
"""

import torch
from torch.nn import functional as F


def mse_loss(prediction, target):
    return F.mse_loss(prediction, target)


inputs = [torch.randn(4096, 4096), torch.randn(4096, 4096)]
shapes = [(128, 1000), (1, 1048576)]
