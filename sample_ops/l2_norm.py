"""Rows scaled to length one, as before a nearest-neighbour search.

Why it is interesting: the simplest kernel with a reduction and a second use of the same data. Small rows
(128) want one warp each, several rows a block; long rows want a whole block.

Look for: which mapping of threads to rows wins at which length, and a row of zeros, which must not become
NaN.
"""

import torch


def l2_norm(x):
    length = torch.sqrt((x * x).sum(dim=-1, keepdim=True))
    return x / torch.clamp(length, min=1e-12)


inputs = [torch.randn(65536, 1024)]
shapes = [(1048576, 128), (128, 65536)]
