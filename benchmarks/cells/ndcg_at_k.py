"""NDCG@10 and reciprocal rank of slates of 128 items with graded labels and padded items."""

import torch


def ndcg_at_k(scores, labels, mask, k: int = 10):
    scores = scores.masked_fill(~mask, float("-inf"))
    labels = labels.float() * mask
    top = scores.topk(k, dim=1).indices
    got = torch.gather(labels, 1, top)
    discount = 1.0 / torch.log2(torch.arange(k, device=scores.device).float() + 2.0)
    dcg = ((2**got - 1) * discount).sum(1)
    best = labels.topk(k, dim=1).values
    idcg = ((2**best - 1) * discount).sum(1)
    ndcg = torch.where(idcg > 0, dcg / idcg.clamp(min=1e-9), torch.zeros_like(dcg))
    hit = (got >= 3).float()
    first = torch.argmax(hit, dim=1)
    mrr = hit.max(1).values / (first + 1).float()
    return ndcg, mrr


inputs = [
    torch.randn(32768, 128),
    torch.randint(0, 5, (32768, 128), dtype=torch.uint8),
    torch.rand(32768, 128) > 0.2,
]
