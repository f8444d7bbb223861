"""Probabilities of the next token at a temperature, bfloat16 logits."""

import torch


def sampling_softmax(logits, temperature):
    return torch.softmax(logits.float() / temperature[:, None], -1)


inputs = [torch.randn(16, 128256, dtype=torch.bfloat16), torch.rand(16) + 0.5]
