"""Scores of additive attention: tanh of sums, weighted."""

import torch


def additive_scores(query, key, weight):
    return (torch.tanh(query[:, :, None] + key[:, None]) * weight).sum(-1)


inputs = [torch.randn(8, 64, 256), torch.randn(8, 256, 256), torch.randn(256)]
