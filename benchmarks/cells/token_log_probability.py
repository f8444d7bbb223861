"""Log-probability of the tokens that were chosen, bfloat16 logits."""

import torch


def token_log_probability(logits, tokens):
    return torch.log_softmax(logits.float(), -1).gather(-1, tokens[:, None]).squeeze(-1)


inputs = [torch.randn(2048, 32000, dtype=torch.bfloat16), torch.randint(0, 32000, (2048,))]
