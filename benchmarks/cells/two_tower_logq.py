"""In-batch softmax of two towers, corrected by how often an item is drawn, accidental hits masked."""

import torch
from torch.nn import functional as F


def two_tower_logq(query, item, ids, log_q, temperature: float = 0.05):
    q, i = F.normalize(query, dim=-1), F.normalize(item, dim=-1)
    logits = q @ i.t() / temperature - log_q
    hit = ids[:, None] == ids[None, :]
    hit = hit & ~torch.eye(ids.shape[0], dtype=torch.bool, device=ids.device)
    logits = logits.masked_fill(hit, torch.finfo(logits.dtype).min)
    target = torch.arange(ids.shape[0], device=ids.device)
    loss = F.cross_entropy(logits, target, reduction="none")
    rank = (logits > logits.diagonal()[:, None]).sum(1)
    return loss.mean(), (rank < 10).float().mean()


inputs = [
    torch.randn(4096, 128),
    torch.randn(4096, 128),
    torch.randint(0, 50000, (4096,)),
    -torch.rand(4096) * 8,
]
