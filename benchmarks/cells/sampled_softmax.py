"""A retrieval loss with negatives of the batch, corrected for how often each is drawn; chance hits hidden."""

import torch
import torch.nn.functional as F


def sampled_softmax(user, item, item_ids, log_q, temperature: float = 0.05):
    user = F.normalize(user, dim=-1)
    item = F.normalize(item, dim=-1)
    logits = user @ item.T / temperature - log_q[None, :]
    same = item_ids[:, None] == item_ids[None, :]
    same.fill_diagonal_(False)
    logits.masked_fill_(same, torch.finfo(logits.dtype).min)
    labels = torch.arange(len(user), device=user.device)
    return F.cross_entropy(logits, labels)


inputs = [
    torch.randn(4096, 128),
    torch.randn(4096, 128),
    torch.randint(0, 20000, (4096,)),
    -torch.rand(4096) * 8,
]
