"""Greedy decoding of frames of a recogniser: which labels stay, how many, how sure of them."""

import torch


def greedy_ctc(logits, lengths):
    blank = 0
    probs = torch.softmax(logits.float(), dim=-1)
    conf, best = probs.max(dim=-1)
    valid = torch.arange(logits.shape[1], device=logits.device)[None, :] < lengths[:, None]
    previous = torch.nn.functional.pad(best[:, :-1], (1, 0), value=blank)
    keep = (best != blank) & (best != previous) & valid
    labels = torch.where(keep, best, torch.full_like(best, -1))
    score = (conf.log() * keep).sum(1) / keep.sum(1).clamp(min=1)
    return labels, keep.sum(1), score


inputs = [torch.randn(64, 1500, 512, dtype=torch.float16), torch.randint(200, 1500, (64,))]
