"""Rotary position embedding: rotate pairs of features by an angle that depends on the position.

Why it is interesting: pointwise, but each output needs two inputs that lie half a row apart, and the
angles' cosines and sines broadcast over batch and heads. As separate operations it is a dozen passes over
queries and keys.

Look for: each element read once although it is used twice, and where the tables come from (L2).
"""

import torch


def rotary(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    rotated = torch.cat((-second, first), dim=-1)
    return x * cos + rotated * sin


inputs = [torch.randn(8, 32, 2048, 128), torch.randn(2048, 128), torch.randn(2048, 128)]
shapes = [((1, 8, 100, 64), (100, 64), (100, 64))]
