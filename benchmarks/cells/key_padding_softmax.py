"""Attention weights where some keys are padding, bfloat16 scores."""

import torch


def key_padding_softmax(scores, padding, scale):
    scores = scores.float() * scale
    return scores.masked_fill(padding[:, None, None], float("-inf")).softmax(-1).to(torch.bfloat16)


inputs = [torch.randn(8, 16, 512, 512, dtype=torch.bfloat16), torch.rand(8, 512) > 0.8, 0.125]
