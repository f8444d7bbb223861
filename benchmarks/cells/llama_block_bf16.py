"""A block as Llama has it, in bfloat16: RMS norms, rotary places, four heads of keys for 16, a gated MLP."""

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def turned(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Block(nn.Module):
    def __init__(self, width=1024, heads=16, groups=4, hidden=2816):
        super().__init__()
        self.heads, self.groups, self.each = heads, groups, width // heads
        self.first, self.second = Norm(width), Norm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.each, bias=False)
        self.v = nn.Linear(width, groups * self.each, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        y = self.first(x)
        q, k, v = (
            one(y).view(batch, length, -1, self.each).transpose(1, 2) for one in (self.q, self.k, self.v)
        )
        q, k = (one * cos + turned(one) * sin for one in (q, k))
        k, v = (one.repeat_interleave(self.heads // self.groups, dim=1) for one in (k, v))
        met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(met.transpose(1, 2).reshape(batch, length, -1))
        y = self.second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


block = Block().to(torch.bfloat16)
angles = torch.arange(1024.0)[:, None] * 10000.0 ** (-torch.arange(0, 64, 2) / 64)
angles = torch.cat((angles, angles), -1)
inputs = [torch.randn(4, 1024, 1024, dtype=torch.bfloat16), angles.cos().bfloat16(), angles.sin().bfloat16()]
