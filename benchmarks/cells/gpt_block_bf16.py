"""A block as GPT-2 has it, in bfloat16: one projection split in three, a GELU written out with a tanh."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class NewGELU(nn.Module):
    def forward(self, x):
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


class Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads, self.first, self.second = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), NewGELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.all(self.first(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(met.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(self.act(self.up(self.second(x))))


block = Block().to(torch.bfloat16)
inputs = [torch.randn(8, 1024, 768, dtype=torch.bfloat16)]
