"""Cosine similarity of matching rows: three sums in one pass.

Why it is interesting: x.y, |x|^2 and |y|^2 all come from the same two reads, but as separate operations they
are eight launches. The output is one number a row, so it is a pure read.

Look for: three accumulators a thread, and reductions that share their barriers.
"""

import torch


def cosine_similarity(x, y):
    dot = (x * y).sum(dim=-1)
    lengths = torch.sqrt((x * x).sum(dim=-1) * (y * y).sum(dim=-1))
    return dot / torch.clamp(lengths, min=1e-8)


inputs = [torch.randn(16384, 2048), torch.randn(16384, 2048)]
shapes = [(65536, 128), (16, 262144)]
