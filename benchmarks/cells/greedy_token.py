"""The most likely token, bfloat16 logits."""

import torch


def greedy_token(logits):
    return logits.argmax(-1)


inputs = [torch.randn(16, 128256, dtype=torch.bfloat16)]
