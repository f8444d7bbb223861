"""Structured decoding in an LLM server: packed grammar bitmask, logit bias and temperature."""

import torch


class GrammarMask(torch.nn.Module):
    def __init__(self, vocab=128256):
        super().__init__()
        self.vocab = vocab
        self.register_buffer("shifts", torch.arange(32, dtype=torch.int32))

    def forward(self, logits, bitmask, use_grammar, temperature, bias_ids, bias_values):
        bits = torch.bitwise_and(torch.bitwise_right_shift(bitmask.unsqueeze(-1), self.shifts), 1)
        allowed = bits.bool().flatten(1)[:, : self.vocab]
        allowed = allowed | ~use_grammar.unsqueeze(1)
        logits = logits.float()
        logits = logits.scatter_add(1, bias_ids, bias_values)
        logits = logits.masked_fill(~allowed, float("-inf"))
        greedy = torch.argmax(logits, dim=-1)
        is_greedy = temperature < 1e-5
        temp = torch.where(is_greedy, 1.0, temperature)
        logits = logits / temp.unsqueeze(1)
        lse = torch.logsumexp(logits, dim=-1)
        chosen = logits.gather(1, greedy.unsqueeze(1)).squeeze(1) - lse
        return logits, greedy.to(torch.int32), chosen, allowed.sum(dim=-1, dtype=torch.int32)


inputs = [
    torch.randn(96, 128256).to(torch.bfloat16),
    torch.randint(-(2**31), 2**31 - 1, (96, 4008), dtype=torch.int32),
    torch.rand(96) > 0.4,
    torch.rand(96) * (torch.rand(96) > 0.3),
    torch.randint(0, 128256, (96, 16)),
    torch.randn(96, 16),
]
