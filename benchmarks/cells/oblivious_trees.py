"""A layer of soft oblivious trees of depth four: what each answers for every row."""

import torch
import torch.nn.functional as F


class ObliviousTrees(torch.nn.Module):
    def __init__(self, trees=64, depth=4):
        super().__init__()
        self.thresholds = torch.nn.Parameter(torch.randn(trees, depth))
        self.log_temperatures = torch.nn.Parameter(torch.zeros(trees, depth))
        self.response = torch.nn.Parameter(torch.randn(trees, 2**depth))
        codes = (torch.arange(2**depth)[None] >> torch.arange(depth)[:, None]) & 1
        self.register_buffer("codes", torch.stack([codes, 1 - codes], -1).float())

    def forward(self, features):
        logits = (features - self.thresholds) * torch.exp(-self.log_temperatures)
        logits = torch.stack([-logits, logits], dim=-1)
        bins = F.hardtanh(0.5 * logits + 0.5, 0.0, 1.0)
        matches = torch.einsum("btds,dcs->btdc", bins, self.codes)
        weights = torch.prod(matches, dim=-2)
        return torch.einsum("btc,tc->bt", weights, self.response)


inputs = [torch.randn(8192, 64, 4)]
