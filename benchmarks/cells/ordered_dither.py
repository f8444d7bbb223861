"""Ordered dithering of frames to a palette of sixteen colours (for an e-paper panel)."""

import torch
from torch import nn


def bayer(n):
    if n == 1:
        return torch.zeros(1, 1)
    b = bayer(n // 2)
    return torch.cat([torch.cat([4 * b, 4 * b + 2], 1), torch.cat([4 * b + 3, 4 * b + 1], 1)], 0)


class OrderedDither(nn.Module):
    def __init__(self, palette, strength=32.0):
        super().__init__()
        self.register_buffer("palette", palette)
        self.register_buffer("threshold", (bayer(8) + 0.5) / 64 - 0.5)
        self.strength = strength

    def forward(self, image):
        b, c, h, w = image.shape
        t = self.threshold.repeat(h // 8, w // 8)
        x = (image.float() + self.strength * t).clamp(0, 255)
        flat = x.movedim(1, -1).reshape(-1, c)
        index = torch.cdist(flat, self.palette).argmin(dim=1)
        out = self.palette[index].view(b, h, w, c).to(torch.uint8)
        return index.view(b, h, w).to(torch.uint8), out.permute(0, 3, 1, 2).contiguous()


init_inputs = [
    torch.tensor([[r, g, b] for r in (0.0, 255.0) for g in (0.0, 85.0, 170.0, 255.0) for b in (0.0, 255.0)])
]
inputs = [torch.randint(0, 256, (6, 3, 600, 448), dtype=torch.uint8)]
