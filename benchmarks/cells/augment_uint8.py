"""Augmentation of uint8 crops: flip, brightness, contrast, saturation, grey, erase, to normalised NCHW."""

from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass(frozen=True)
class AugmentConfig:
    mean: tuple = (0.485, 0.456, 0.406)
    std: tuple = (0.229, 0.224, 0.225)
    luma: tuple = (0.299, 0.587, 0.114)
    erase_value: float = 0.0
    out_dtype: torch.dtype = field(default=torch.float16)


class Augment(nn.Module):
    def __init__(self, config: AugmentConfig = AugmentConfig()):
        super().__init__()
        self.config = config
        for name in ("mean", "std", "luma"):
            self.register_buffer(name, torch.tensor(getattr(config, name)))

    def grey(self, x):
        return (x * self.luma).sum(dim=-1, keepdim=True)

    def forward(self, images, flip, jitter, to_grey, erase):
        n, h, w, _ = images.shape
        x = images.float() / 255.0
        x = torch.where(flip.view(n, 1, 1, 1), x.flip(2), x)
        brightness, contrast, saturation = (j.view(n, 1, 1, 1) for j in jitter.unbind(1))
        x = (x * brightness).clamp(0, 1)
        centre = self.grey(x).mean(dim=(1, 2), keepdim=True)
        x = torch.lerp(centre, x, contrast).clamp(0, 1)
        g = self.grey(x)
        x = torch.lerp(g, x, saturation).clamp(0, 1)
        x = torch.where(to_grey.view(n, 1, 1, 1), g, x)
        x = (x - self.mean) / self.std
        ys = torch.arange(h, device=x.device).view(1, h, 1)
        xs = torch.arange(w, device=x.device).view(1, 1, w)
        y0, x0, y1, x1 = (e.view(n, 1, 1) for e in erase.unbind(1))
        hole = (ys >= y0) & (ys < y1) & (xs >= x0) & (xs < x1)
        x = x.masked_fill(hole.unsqueeze(-1), self.config.erase_value)
        return x.permute(0, 3, 1, 2).contiguous().to(self.config.out_dtype)


inputs = [
    torch.randint(0, 256, (64, 224, 224, 3), dtype=torch.uint8),
    torch.rand(64) < 0.5,
    torch.rand(64, 3) * 0.8 + 0.6,
    torch.rand(64) < 0.2,
    torch.cat([torch.randint(0, 120, (64, 2)), torch.randint(120, 200, (64, 2))], 1),
]
