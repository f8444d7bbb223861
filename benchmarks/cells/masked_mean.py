"""Mean of a sentence's tokens, those that are padding left out."""

import torch


def masked_mean(x, mask):
    kept = mask.unsqueeze(-1).to(x.dtype)
    return (x * kept).sum(1) / kept.sum(1).clamp(min=1)


inputs = [torch.randn(256, 512, 384), torch.rand(256, 512) > 0.3]
