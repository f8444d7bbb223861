"""Rotary position embedding of queries, its angles computed from places as models' own code does."""

import torch


def rotate_half(x):
    one, other = x.chunk(2, dim=-1)
    return torch.cat((-other, one), dim=-1)


class RotaryFromPlaces(torch.nn.Module):
    def __init__(self, dim=128, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, q):
        places = torch.arange(q.shape[-2], device=q.device, dtype=torch.float32)
        angles = places[:, None] * self.inv_freq[None, :]
        angles = torch.cat((angles, angles), dim=-1)
        cos, sin = angles.cos().to(q.dtype), angles.sin().to(q.dtype)
        return q * cos + rotate_half(q) * sin


inputs = [torch.randn(4, 32, 4096, 128).to(torch.bfloat16)]
