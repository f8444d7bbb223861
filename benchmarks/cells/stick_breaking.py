"""Stick-breaking weights of a truncated Dirichlet process: 16 sticks a row, each a share of what is left."""

import torch


class StickBreaking(torch.nn.Module):
    def forward(self, logits):
        share = torch.sigmoid(logits)
        left = torch.cumprod(1 - share, dim=-1)
        before = torch.cat([torch.ones_like(left[..., :1]), left[..., :-1]], dim=-1)
        return share * before


inputs = [torch.randn(262144, 16)]
