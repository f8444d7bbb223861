"""Combine of expert outputs: rows put back and added up by weight, a shared expert, the residual."""

import torch
import torch.nn as nn


class Unpermute(nn.Module):
    def __init__(self, top_k=8, scale=2.5):
        super().__init__()
        self.top_k, self.scale = top_k, scale

    def forward(self, expert_out, inverse, weights, shared, gate, residual):
        t, k = weights.shape
        y = expert_out[inverse].view(t, k, -1)
        y = (y * weights.unsqueeze(-1).to(y.dtype)).sum(dim=1) * self.scale
        y = y + torch.sigmoid(gate) * shared
        out = residual + y
        var = out.float().pow(2).mean(-1, keepdim=True)
        normed = (out.float() * torch.rsqrt(var + 1e-6)).to(out.dtype)
        return out, normed


inputs = [
    torch.randn(4096 * 8, 2048).bfloat16(),
    torch.randperm(4096 * 8),
    torch.softmax(torch.randn(4096, 8), -1),
    torch.randn(4096, 2048).bfloat16(),
    torch.randn(4096, 1).bfloat16(),
    torch.randn(4096, 2048).bfloat16(),
]
