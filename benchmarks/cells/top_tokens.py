"""The likeliest tokens of each sequence, at a temperature, and how likely they are among themselves."""

import torch


def top_tokens(logits, temperature):
    best, token = (logits / temperature[:, None]).topk(10, dim=-1)
    return torch.softmax(best, -1), token


inputs = [torch.randn(64, 50257), torch.rand(64) + 0.5]
