"""Nucleus sampling's filter: logits outside the likeliest 0.9 are minus infinity."""

import torch


def top_p(logits):
    ordered, places = torch.sort(logits, descending=True, dim=-1)
    cumulative = torch.softmax(ordered, dim=-1).cumsum(dim=-1)
    remove = cumulative > 0.9
    remove = torch.cat([torch.zeros_like(remove[:, :1]), remove[:, :-1]], dim=-1)
    return logits.masked_fill(remove.scatter(1, places, remove), float("-inf"))


inputs = [torch.randn(64, 32000) * 3]
