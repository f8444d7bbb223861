"""Another order of summation: blocks of columns with a running maximum and sum.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.shape[0]
        largest = x.new_full((rows, 1), -torch.inf)
        total = x.new_zeros((rows, 1))
        for block in x.split(16, dim=1):
            seen = torch.maximum(largest, block.max(dim=1, keepdim=True).values)
            old = torch.where(torch.isneginf(largest), 0.0, torch.exp(largest - seen))
            new = torch.where(torch.isneginf(block) & ~torch.isneginf(seen), 0.0, torch.exp(block - seen))
            new = torch.where(torch.isneginf(seen) & torch.isneginf(block), 0.0, new)
            total = total * old + new.sum(dim=1, keepdim=True)
            largest = seen
        return torch.exp(x - largest) / total
