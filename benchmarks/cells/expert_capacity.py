"""Capacity-limited top-2 expert dispatch (GShard): slots by cumulative counts, drops and loss."""

import torch
import torch.nn.functional as F


class Top2Capacity(torch.nn.Module):
    def __init__(self, experts=64, capacity_factor=1.25, groups=8):
        super().__init__()
        self.experts, self.capacity_factor, self.groups = experts, capacity_factor, groups

    def forward(self, logits):
        logits = logits.view(self.groups, -1, self.experts).float()
        _, s, e = logits.shape
        capacity = int(2 * s / e * self.capacity_factor)
        gates = F.softmax(logits, dim=-1)
        indices1 = torch.argmax(gates, dim=-1)
        mask1 = F.one_hot(indices1, num_classes=e)
        logits_except1 = logits.masked_fill(mask1.bool(), float("-inf"))
        indices2 = torch.argmax(logits_except1, dim=-1)
        mask2 = F.one_hot(indices2, num_classes=e)
        locations1 = torch.cumsum(mask1, dim=1) - 1
        locations2 = torch.cumsum(mask2, dim=1) - 1
        locations2 += torch.sum(mask1, dim=1, keepdim=True)
        me = torch.mean(gates, dim=1)
        ce = torch.mean(mask1.float(), dim=1)
        l_aux = torch.mean(me * ce) * e * e
        mask1 = mask1 * torch.lt(locations1, capacity)
        mask2 = mask2 * torch.lt(locations2, capacity)
        slot1 = torch.sum(locations1 * mask1, dim=-1)
        slot2 = torch.sum(locations2 * mask2, dim=-1)
        gates1 = torch.sum(gates * mask1.float(), dim=-1)
        gates2 = torch.sum(gates * mask2.float(), dim=-1)
        denom = torch.clamp(gates1 + gates2, min=torch.finfo(gates.dtype).eps)
        weights = torch.stack([gates1 / denom, gates2 / denom], dim=-1)
        flat = torch.stack([indices1 * capacity + slot1, indices2 * capacity + slot2], dim=-1)
        kept = torch.stack([mask1.sum(-1), mask2.sum(-1)], dim=-1).bool()
        return torch.where(kept, flat, -1), weights, l_aux, (mask1 + mask2).sum(dim=1)


inputs = [torch.randn(32768, 64).to(torch.bfloat16)]
