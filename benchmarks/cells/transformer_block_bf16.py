"""A block of a language model in bfloat16: causal attention of twelve heads, and an MLP."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads, self.norm, self.again = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.all, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.all(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        met = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(met.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.again(x))))


block = Block().to(torch.bfloat16)
inputs = [torch.randn(8, 1024, 768, dtype=torch.bfloat16)]
