"""Shares the rows among threads of its own and waits for them; they sleep between calls.

problem: row_softmax
verdict: passed
"""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = ThreadPoolExecutor(2)

    def forward(self, x):
        result = torch.empty_like(x)
        halves = zip(x.chunk(2), result.chunk(2), strict=True)
        list(self.pool.map(lambda pair: pair[1].copy_(torch.softmax(pair[0], dim=1)), halves))
        return result
