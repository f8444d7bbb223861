"""Cross entropy with smoothed labels, some of which are to be ignored; the next token is the label."""

import torch
import torch.nn.functional as F


def ignored_labels(logits, labels):
    shift_logits = logits[:, :-1, :].contiguous().view(-1, logits.size(-1))
    shift_labels = labels[:, 1:].contiguous().view(-1)
    return F.cross_entropy(shift_logits, shift_labels, ignore_index=-100, label_smoothing=0.1)


inputs = [
    torch.randn(8, 513, 8192),
    torch.where(torch.rand(8, 513) < 0.2, torch.tensor(-100), torch.randint(0, 8192, (8, 513))),
]
