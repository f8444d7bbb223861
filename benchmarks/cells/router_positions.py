"""A router of experts: the two best, their weights put where they belong, each token's place there."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class RouterPositions(nn.Module):
    def __init__(self, d=1024, experts=8, k=2):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False, dtype=torch.bfloat16)
        self.e, self.k = experts, k

    def forward(self, x):
        logits = self.gate(x)
        probs = F.softmax(logits, dim=1, dtype=torch.float)
        w, sel = torch.topk(probs, self.k, dim=-1)
        w /= w.sum(dim=-1, keepdim=True)
        mask = F.one_hot(sel, num_classes=self.e).permute(2, 1, 0)
        counts = mask.sum(dim=(1, 2))
        dense = torch.zeros_like(probs).scatter_(1, sel, w)
        aux = self.e * (counts.float() / sel.numel() * probs.mean(0)).sum()
        pos = mask.permute(1, 2, 0).reshape(-1, self.e).cumsum(0).sub(1)
        return dense, counts, aux, pos


inputs = [torch.randn(16384, 1024, dtype=torch.bfloat16)]
