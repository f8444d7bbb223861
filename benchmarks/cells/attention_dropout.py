"""Probabilities with a given mask of dropout, float16."""

import torch


def attention_dropout(scores, kept):
    return torch.softmax(scores / 0.9, -1) * kept / 0.8


inputs = [torch.randn(8, 12, 512, 512, dtype=torch.float16), torch.rand(8, 12, 512, 512).lt(0.8)]
