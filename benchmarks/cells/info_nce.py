"""Contrastive loss of a matrix of similarities."""

import torch


def info_nce(similarity):
    return (torch.logsumexp(similarity * 20, -1) - similarity.diagonal() * 20).mean()


inputs = [torch.randn(8192, 8192)]
