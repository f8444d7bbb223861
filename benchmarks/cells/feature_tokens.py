"""Tokens of a table's rows: numbers times vectors, categories from one table, and the row's own token."""

import torch
from torch import nn


class FeatureTokens(nn.Module):
    def __init__(self, numbers=16, categories=(7, 12, 31, 24, 365, 50), dim=64):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(numbers, dim) * 0.1)
        self.bias = nn.Parameter(torch.randn(numbers + len(categories), dim) * 0.1)
        self.cls = nn.Parameter(torch.randn(dim) * 0.1)
        self.embedding = nn.Embedding(sum(categories), dim)
        offsets = torch.tensor([0, *categories[:-1]]).cumsum(0)
        self.register_buffer("offsets", offsets)

    def forward(self, x_num, x_cat):
        nums = self.weight[None] * x_num[:, :, None]
        cats = self.embedding(x_cat + self.offsets[None])
        tokens = torch.cat([nums, cats], dim=1) + self.bias[None]
        return torch.cat([self.cls.expand(len(x_num), 1, -1), tokens], dim=1)


inputs = [torch.randn(8192, 16), torch.randint(0, 7, (8192, 6))]
