"""Means of bags of 32 embeddings."""

import torch


def embedding_bag(tokens, table):
    return table[tokens].mean(1)


inputs = [torch.randint(0, 100000, (16384, 32)), torch.randn(100000, 128)]
