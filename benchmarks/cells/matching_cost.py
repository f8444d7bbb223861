"""The costs by which a detector's queries are matched to boxes: class, L1 and generalised overlap."""

import torch


def corners(b):
    cx, cy, w, h = b.unbind(-1)
    return torch.stack([cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h], dim=-1)


def matching_cost(logits, boxes, labels, targets):
    prob = logits.flatten(0, 1).sigmoid()
    out = boxes.flatten(0, 1)
    alpha, gamma = 0.25, 2.0
    neg = (1 - alpha) * (prob**gamma) * (-(1 - prob + 1e-8).log())
    pos = alpha * ((1 - prob) ** gamma) * (-(prob + 1e-8).log())
    cost_class = pos[:, labels] - neg[:, labels]
    cost_box = torch.cdist(out, targets, p=1)
    a, b = corners(out), corners(targets)
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    lt, rb = torch.max(a[:, None, :2], b[:, :2]), torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    union = area_a[:, None] + area_b - inter
    lt, rb = torch.min(a[:, None, :2], b[:, :2]), torch.max(a[:, None, 2:], b[:, 2:])
    hull = (rb - lt).clamp(min=0).prod(-1)
    giou = inter / union - (hull - union) / hull
    return 5 * cost_box + 2 * cost_class - 2 * giou


inputs = [
    torch.randn(16, 300, 91),
    torch.rand(16, 300, 4) * 0.5 + 0.25,
    torch.randint(0, 91, (256,)),
    torch.rand(256, 4) * 0.5 + 0.25,
]
