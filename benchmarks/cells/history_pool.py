"""User interest pooling of a deep interest network: clicked items weighted against the candidate."""

import torch
import torch.nn.functional as F


class HistoryPool(torch.nn.Module):
    def __init__(self, items=60000, cats=1000, dim=24, buckets=16):
        super().__init__()
        self.item = torch.nn.Embedding(items, dim, padding_idx=0)
        self.cat = torch.nn.Embedding(cats, 8, padding_idx=0)
        self.age_bias = torch.nn.Embedding(buckets, 1)
        self.buckets = buckets
        width = dim + 8
        self.alpha = torch.nn.Parameter(torch.full((width,), 0.25))
        self.score = torch.nn.Parameter(torch.linspace(-0.3, 0.3, width))
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def dice(self, x):
        p = torch.sigmoid((x - self.running_mean) / torch.sqrt(self.running_var + 1e-8))
        return p * x + (1 - p) * self.alpha * x

    def forward(self, hist_items, hist_cats, ages, cand_item, cand_cat):
        keys = torch.cat([self.item(hist_items), self.cat(hist_cats)], dim=-1)
        query = torch.cat([self.item(cand_item), self.cat(cand_cat)], dim=-1).unsqueeze(1)
        bucket = torch.log2(ages.float() + 1).long().clamp(max=self.buckets - 1)
        scores = (self.dice(keys * query) * self.score).sum(-1) + self.age_bias(bucket).squeeze(-1)
        pad = hist_items.eq(0)
        scores = scores.masked_fill(pad, -(2**31) + 1.0)
        weights = F.softmax(scores / keys.shape[-1] ** 0.5, dim=1)
        pooled = (weights.unsqueeze(-1) * keys).sum(1)
        average = (keys * (~pad).unsqueeze(-1)).sum(1) / (~pad).sum(1, keepdim=True).clamp(min=1)
        return torch.cat([pooled, average, query.squeeze(1) * pooled], dim=-1), weights


inputs = [
    torch.randint(0, 60000, (8192, 50)) * torch.randint(0, 2, (8192, 50)),
    torch.randint(0, 1000, (8192, 50)),
    torch.randint(0, 100000, (8192, 50), dtype=torch.int32),
    torch.randint(1, 60000, (8192,)),
    torch.randint(1, 1000, (8192,)),
]
