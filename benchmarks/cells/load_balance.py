"""A mixture's gate: the best two experts, their shares, and the loss that balances the load."""

import torch
import torch.nn.functional as F


def load_balance(router_logits):
    experts = router_logits.shape[-1]
    probs = F.softmax(router_logits, dim=-1, dtype=torch.float)
    weights, chosen = torch.topk(probs, 2, dim=-1)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    mask = F.one_hot(chosen, num_classes=experts).float()
    tokens_per_expert = mask.sum(1).mean(0)
    loss = experts * (tokens_per_expert * probs.mean(0)).sum()
    return weights.to(router_logits.dtype), chosen, loss


inputs = [torch.randn(65536, 64, dtype=torch.bfloat16)]
