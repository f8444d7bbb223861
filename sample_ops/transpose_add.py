"""A transposed tensor plus a plain one: one of the two is read against the grain.

Why it is interesting: whichever way the threads run, one tensor is walked along its columns. A tile in
shared memory turns the corner: read by rows, written by columns, with a padded row so that the banks do
not collide.

Look for: sectors a request for each tensor, shared-memory bank conflicts, and a matrix that is no
multiple of the tile.
"""

import torch


def transpose_add(x, y):
    return x.t() + y


inputs = [torch.randn(8192, 8192), torch.randn(8192, 8192)]
shapes = [((4096, 16384), (16384, 4096)), ((1000, 3001), (3001, 1000)), ((65536, 64), (64, 65536))]
