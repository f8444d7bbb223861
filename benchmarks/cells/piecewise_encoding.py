"""Numbers of a table as how far they have come through each of their bins."""

import torch


class PiecewiseEncoding(torch.nn.Module):
    def __init__(self, features=32, bins=24):
        super().__init__()
        edges = torch.linspace(-2.5, 2.5, bins + 1).repeat(features, 1)
        self.register_buffer("left", edges[:, :-1].contiguous())
        self.register_buffer("width", edges[:, 1:] - edges[:, :-1])

    def forward(self, x):
        e = (x[..., None] - self.left) / self.width
        first, mid, last = e[..., :1], e[..., 1:-1], e[..., -1:]
        e = torch.cat([first.clamp_max(1.0), mid.clamp(0.0, 1.0), last.clamp_min(0.0)], dim=-1)
        return e.flatten(1)


inputs = [torch.randn(16384, 32)]
