"""A custom operator of its own in the dispatcher.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


@torch.library.custom_op("solution::softmax", mutates_args=())
def softmax(x: torch.Tensor) -> torch.Tensor:
    powers = torch.exp(x - x.max(dim=1, keepdim=True).values)
    return powers / powers.sum(dim=1, keepdim=True)


class ModelNew(nn.Module):
    def forward(self, x):
        return softmax(x)
