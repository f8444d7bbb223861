"""Disentangled attention probabilities of DeBERTa: content and bucketed relative positions, gathered."""

import math

import torch


class DisentangledScores(torch.nn.Module):
    def __init__(self, heads=12, head_dim=64, buckets=256, max_position=512):
        super().__init__()
        self.heads, self.head_dim, self.buckets, self.max_position = heads, head_dim, buckets, max_position

    def relative_position(self, size, device):
        ids = torch.arange(size, device=device)
        rel = ids[:, None] - ids[None, :]
        sign = torch.sign(rel)
        mid = self.buckets // 4
        abs_pos = torch.where(
            (rel < mid) & (rel > -mid), torch.tensor(mid - 1, device=device).type_as(rel), torch.abs(rel)
        )
        log_pos = (
            torch.ceil(torch.log(abs_pos / mid) / math.log((self.max_position - 1) / mid) * (mid - 1)) + mid
        )
        return torch.where(abs_pos <= mid, rel.type_as(log_pos), log_pos * sign).long()

    def forward(self, c2c, c2p_att, p2c_att, attention_mask):
        n, q, k = c2c.shape
        span = self.buckets // 2
        rel = self.relative_position(q, c2c.device)
        c2p_pos = torch.clamp(rel + span, 0, span * 2 - 1)
        c2p = torch.gather(c2p_att, dim=-1, index=c2p_pos.expand(n, q, k))
        p2c_pos = torch.clamp(-rel + span, 0, span * 2 - 1)
        p2c = torch.gather(p2c_att, dim=-1, index=p2c_pos.expand(n, k, k)).transpose(-1, -2)
        scores = (c2c + c2p + p2c) / math.sqrt(self.head_dim * 3)
        scores = scores.view(-1, self.heads, q, k)
        rmask = ~(attention_mask[:, None, None, :] * attention_mask[:, None, :, None]).to(torch.bool)
        scores = scores.masked_fill(rmask, torch.finfo(scores.dtype).min)
        return torch.softmax(scores, dim=-1).masked_fill(rmask, 0.0)


inputs = [
    torch.randn(36, 512, 512),
    torch.randn(36, 512, 256),
    torch.randn(36, 512, 256),
    (torch.rand(3, 512) > 0.15).to(torch.uint8),
]
