"""GRPO loss of a language model: advantages of groups, clipped ratios, divergence to a reference, metrics."""

import torch
import torch.nn as nn


class GrpoLoss(nn.Module):
    def __init__(self, group=8, eps_low=0.2, eps_high=0.28, beta=0.04, delta=None):
        super().__init__()
        self.group, self.eps_low, self.eps_high, self.beta, self.delta = group, eps_low, eps_high, beta, delta

    def forward(self, logps, old_logps, ref_logps, rewards, completion_mask):
        r = rewards.view(-1, self.group)
        adv = (r - r.mean(dim=1, keepdim=True)) / (r.std(dim=1, keepdim=True) + 1e-4)
        adv = adv.view(-1, 1)
        log_ratio = logps - old_logps
        ratio = torch.exp(log_ratio)
        clipped = torch.clamp(ratio, 1 - self.eps_low, 1 + self.eps_high)
        if self.delta is not None:
            ratio = torch.clamp(ratio, max=self.delta)
        per_token = -torch.min(ratio * adv, clipped * adv)
        d = ref_logps - logps
        kl = torch.exp(d) - d - 1
        per_token = per_token + self.beta * kl
        mask = completion_mask.to(per_token.dtype)
        loss = (per_token * mask).sum() / mask.sum().clamp(min=1.0)
        is_low = (ratio < 1 - self.eps_low) & (adv < 0)
        is_high = (ratio > 1 + self.eps_high) & (adv > 0)
        clip_ratio = ((is_low | is_high).float() * mask).sum() / mask.sum()
        mean_kl = ((kl * mask).sum(-1) / mask.sum(-1).clamp(min=1)).mean()
        lengths = completion_mask.sum(1)
        return loss, clip_ratio, mean_kl, lengths.float().mean(), lengths.max()


_lp = -torch.rand(512, 8192)
inputs = [
    _lp,
    _lp + 0.05 * torch.randn(512, 8192),
    _lp + 0.1 * torch.randn(512, 8192),
    torch.rand(512),
    (torch.arange(8192)[None] < torch.randint(100, 8192, (512, 1))).int(),
]
