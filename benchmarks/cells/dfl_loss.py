"""Distribution focal loss of box sides: two bins beside the target, weighted, mean over foreground."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class DFLoss(nn.Module):
    def __init__(self, reg_max=16):
        super().__init__()
        self.reg_max = reg_max

    def forward(self, pred_dist, target, fg_mask, weight):
        target = target.clamp(0, self.reg_max - 1 - 0.01)
        tl = target.long()
        tr = tl + 1
        wl = tr - target
        wr = 1 - wl
        logits = pred_dist.view(-1, self.reg_max)
        loss = (
            F.cross_entropy(logits, tl.view(-1), reduction="none").view(tl.shape) * wl
            + F.cross_entropy(logits, tr.view(-1), reduction="none").view(tl.shape) * wr
        ).mean(-1)
        return (loss * weight * fg_mask).sum() / weight.masked_fill(~fg_mask, 0).sum().clamp(min=1.0)


inputs = [
    torch.randn(16, 8400, 64),
    torch.rand(16, 8400, 4) * 16,
    torch.rand(16, 8400) > 0.7,
    torch.rand(16, 8400),
]
