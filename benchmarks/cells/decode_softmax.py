"""Softmax of one token's scores over the cache, float16."""

import torch


def decode_softmax(scores, seen):
    return torch.softmax(scores.masked_fill(~seen[:, None, None, :], -1e4).float(), -1).to(scores.dtype)


inputs = [torch.randn(8, 32, 1, 4096, dtype=torch.float16), torch.rand(8, 4096) > 0.2]
