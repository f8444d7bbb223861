"""A router's scores of eight experts for every token, normed before and weighted after."""

import torch
from torch.nn import functional as F


def expert_scores(tokens, scale, router):
    return torch.softmax(F.linear(F.rms_norm(tokens, (tokens.shape[-1],), scale), router), dim=-1)


inputs = [torch.randn(16384, 2048), torch.ones(2048), torch.randn(8, 2048) * 0.02]
