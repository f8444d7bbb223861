"""Logits at a temperature, those of less than a twentieth of the best one's share hidden."""

import torch


def min_p(logits, temperature):
    logits = logits.float() / temperature.unsqueeze(-1)
    probs = torch.softmax(logits, dim=-1)
    top, _ = probs.max(dim=-1, keepdim=True)
    return logits.masked_fill(probs < 0.05 * top, -float("inf"))


inputs = [torch.randn(256, 128256, dtype=torch.bfloat16), torch.rand(256) + 0.5]
