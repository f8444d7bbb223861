"""Cross-entropy with class labels: log-sum-exp of a row minus one gathered element, averaged.

Why it is interesting: the largest activation of a language model's training step is its logits. Computed
as PyTorch does, they are read, written as log-probabilities and read again; fused, they are read once.

Look for: the gather by label (one element of a row, of which the row's own pass already had a copy), the
two-stage mean, and a vocabulary size that is no multiple of anything.
"""

import torch
from torch.nn import functional as F


def cross_entropy(logits, labels):
    return F.cross_entropy(logits, labels)


inputs = [torch.randn(4096, 32000), torch.randint(0, 32000, (4096,))]
shapes = [((512, 50257), (512,)), ((8192, 1000), (8192,))]
