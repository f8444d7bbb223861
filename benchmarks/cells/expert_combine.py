"""What the experts have given, back in the order of tokens, weighed and added to the shared expert's."""

import torch


def expert_combine(expert_out, inverse, weights, shared, residual):
    tokens, k = weights.shape
    hidden = expert_out.shape[-1]
    picked = expert_out[inverse].view(tokens, k, hidden)
    mixed = (picked * weights.unsqueeze(-1).to(picked.dtype)).sum(dim=1)
    return residual + (mixed + shared)


inputs = [
    torch.randn(4096 * 6, 2048, dtype=torch.bfloat16),
    torch.randperm(4096 * 6),
    torch.softmax(torch.randn(4096, 6), -1),
    torch.randn(4096, 2048, dtype=torch.bfloat16),
    torch.randn(4096, 2048, dtype=torch.bfloat16),
]
