"""Log probabilities added to the scores of beams, masked."""

import torch


def beam_scores(logits, scores, ended):
    return torch.log_softmax(logits, -1).masked_fill(ended[:, None], -1e9) + scores[:, None]


inputs = [torch.randn(256, 50257), torch.randn(256), torch.rand(256).lt(0.1)]
