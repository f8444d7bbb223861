"""What a server tells of a prompt's tokens: log probability, rank, and the likeliest one's."""

import torch


def token_ranks(logits, tokens, temperature: float = 0.7):
    logprobs = torch.log_softmax(logits.float() / temperature, dim=-1, dtype=torch.float32)
    chosen = logprobs.gather(-1, tokens.unsqueeze(-1))
    ranks = (logprobs > chosen).long().sum(-1) + 1
    best, best_id = logprobs.max(dim=-1)
    return chosen.squeeze(-1), ranks, best, best_id


inputs = [torch.randn(512, 32000, dtype=torch.bfloat16), torch.randint(0, 32000, (512,))]
