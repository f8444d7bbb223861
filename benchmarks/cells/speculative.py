"""Speculative decoding: which drafts are accepted, and what is drawn from where one is not."""

import torch


def speculative(target, draft, tokens, uniform):
    p = torch.gather(target, 2, tokens.unsqueeze(-1)).squeeze(-1)
    q = torch.gather(draft, 2, tokens.unsqueeze(-1)).squeeze(-1)
    accepted = uniform < torch.minimum(p / q, torch.ones_like(p))
    count = torch.cumprod(accepted.long(), dim=-1).sum(-1)
    rest = torch.relu(target - draft)
    rest = rest / rest.sum(-1, keepdim=True).clamp(min=1e-10)
    return count, rest


inputs = [
    torch.softmax(torch.randn(64, 5, 32000), -1),
    torch.softmax(torch.randn(64, 5, 32000), -1),
    torch.randint(0, 32000, (64, 5)),
    torch.rand(64, 5),
]
