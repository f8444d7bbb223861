"""Attention probabilities with a learned sink logit per head (gpt-oss), causal sliding window, bf16."""

import torch
import torch.nn as nn


class SinkSoftmax(nn.Module):
    def __init__(self, heads=16, window=128):
        super().__init__()
        self.sinks = nn.Parameter(torch.linspace(-1.0, 2.0, heads))
        self.window = window

    def forward(self, qk):
        b, h, q, k = qk.shape
        i = torch.arange(q, device=qk.device)[:, None]
        j = torch.arange(k, device=qk.device)[None, :]
        mask = torch.zeros(q, k, dtype=qk.dtype, device=qk.device)
        mask.masked_fill_((j > i) | (j <= i - self.window), float("-inf"))
        qk = qk + mask[None, None]
        s = self.sinks.to(qk.dtype).reshape(1, h, 1, 1).expand(b, -1, q, 1)
        w = torch.cat([qk, s], dim=-1)
        w = w - w.max(dim=-1, keepdim=True).values
        w = torch.softmax(w.float(), dim=-1).to(qk.dtype)
        return w[..., :-1]


inputs = [torch.randn(2, 16, 512, 512).bfloat16()]
