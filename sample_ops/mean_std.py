"""Mean and standard deviation of every row: two outputs from one read.

Why it is interesting: eager PyTorch reads the matrix twice. One pass that sums x and x*x would be enough
but cancels badly when the mean is large; two passes over a row that stays in registers cost nothing extra.

Look for: the error with offset inputs, the plan returning two tensors, and what is recomputed.
"""

import torch


def mean_std(x):
    mean = x.mean(dim=1, keepdim=True)
    variance = (x - mean).square().mean(dim=1)
    return mean.squeeze(1), variance.sqrt()


inputs = [torch.randn(8192, 8192)]
shapes = [(32, 262144), (100000, 96)]
