"""Panoptic segmentation: centres by max-pooling, pixels to the nearest, the label of most, ids."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class PanopticMerge(nn.Module):
    def __init__(self, top=64, threshold=0.1, kernel=7, classes=19, thing_from=11, divisor=1000):
        super().__init__()
        self.top, self.threshold, self.kernel, self.classes = top, threshold, kernel, classes
        self.thing_from, self.divisor = thing_from, divisor

    def forward(self, semantic, heat, offset):
        b, _, h, w = heat.shape
        sem = semantic.argmax(1)
        heat = F.threshold(heat, self.threshold, -1.0)
        pooled = F.max_pool2d(heat, self.kernel, 1, self.kernel // 2)
        heat = heat.masked_fill(heat != pooled, -1.0)
        score, at = heat.flatten(1).topk(self.top)
        cy, cx = (at // w).float(), (at % w).float()
        ys = torch.arange(h, device=heat.device).view(1, h, 1) + offset[:, 0]
        xs = torch.arange(w, device=heat.device).view(1, 1, w) + offset[:, 1]
        d = (ys.flatten(1)[:, None] - cy[..., None]) ** 2 + (xs.flatten(1)[:, None] - cx[..., None]) ** 2
        d = d.masked_fill((score <= 0)[..., None], float("inf"))
        inst = d.argmin(1) + 1
        thing = sem.flatten(1) >= self.thing_from
        inst = torch.where(thing, inst, torch.zeros_like(inst))
        votes = torch.zeros(b, (self.top + 1) * self.classes, dtype=torch.int32, device=heat.device)
        votes.scatter_add_(1, inst * self.classes + sem.flatten(1), torch.ones_like(inst, dtype=torch.int32))
        major = votes.view(b, self.top + 1, self.classes).argmax(-1)
        label = torch.where(inst > 0, major.gather(1, inst), sem.flatten(1))
        return (label * self.divisor + inst).view(b, h, w), score


inputs = [torch.randn(4, 19, 512, 1024), torch.rand(4, 1, 512, 1024), torch.randn(4, 2, 512, 1024) * 20]
