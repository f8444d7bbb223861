"""Logits of tokens that were said before are made smaller."""

import torch


def repetition_penalty(input_ids, scores):
    score = torch.gather(scores, 1, input_ids)
    score = torch.where(score < 0, score * 1.2, score / 1.2)
    return scores.scatter(1, input_ids, score)


inputs = [torch.randint(0, 128256, (64, 1024)), torch.randn(64, 128256)]
