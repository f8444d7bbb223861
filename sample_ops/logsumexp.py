"""Log-sum-exp of every row: a reduction whose answer is one number a row.

Why it is interesting: the output is tiny, so the kernel is a pure read at copy speed, if enough loads are
in flight. Without subtracting the maximum first, exp overflows at 89.

Look for: the online form (running maximum and running sum in one pass), rows shared by several warps, and
what happens with few long rows.
"""

import torch


def logsumexp(x):
    return torch.logsumexp(x, dim=-1)


inputs = [torch.randn(4096, 16384)]
shapes = [(64, 131072), (65536, 256)]
