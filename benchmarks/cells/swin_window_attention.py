"""A Swin block: windows of a rolled image attend within themselves, with biases by place and masks."""

import torch
import torch.nn as nn


class SwinWindowAttention(nn.Module):
    def __init__(self, dim=96, heads=3, ws=7, shift=3, h=56, w=56):
        super().__init__()
        self.dim, self.heads, self.ws, self.shift = dim, heads, ws, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * ws - 1) ** 2, heads) * 0.02)
        co = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = (co[:, :, None] - co[:, None, :]).permute(1, 2, 0) + (ws - 1)
        self.register_buffer("index", rel[..., 0] * (2 * ws - 1) + rel[..., 1])
        img = torch.zeros(1, h, w, 1)
        cnt = 0
        for hs in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
            for wsl in (slice(0, -ws), slice(-ws, -shift), slice(-shift, None)):
                img[:, hs, wsl, :] = cnt
                cnt += 1
        m = img.view(1, h // ws, ws, w // ws, ws, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws)
        m = m[:, None, :] - m[:, :, None]
        self.register_buffer("mask", m.masked_fill(m != 0, -100.0))

    def forward(self, x):
        B, H, W, C = x.shape
        ws = self.ws
        y = torch.roll(self.norm(x), (-self.shift, -self.shift), (1, 2))
        y = y.view(B, H // ws, ws, W // ws, ws, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)
        n = y.shape[0]
        q, k, v = self.qkv(y).reshape(n, ws * ws, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        a = a + self.table[self.index.view(-1)].view(ws * ws, ws * ws, -1).permute(2, 0, 1)
        nw = self.mask.shape[0]
        a = (a.view(n // nw, nw, self.heads, ws * ws, ws * ws) + self.mask[:, None]).view(
            -1, self.heads, ws * ws, ws * ws
        )
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(n, ws * ws, C)
        y = self.proj(y).view(B, H // ws, W // ws, ws, ws, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
        return x + torch.roll(y, (self.shift, self.shift), (1, 2))


inputs = [torch.randn(8, 56, 56, 96)]
