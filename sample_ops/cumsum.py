"""Running sums along rows: a scan, where every output needs all elements before it.

Why it is interesting: a reduction throws its partial sums away, a scan must hand them on. Within a block
that is a tree of shuffles; between blocks, when rows are few and long, each block has to learn the total
of everything to its left without a second pass over memory.

Look for: one read and one write (a two-launch scan reads twice), how a block learns what came before it,
and rows that are shorter than a block.
"""

import torch


def cumsum(x):
    return torch.cumsum(x, dim=1)


inputs = [torch.randn(4096, 8192)]
shapes = [(16, 262144), (65536, 256), (1, 4194304)]
