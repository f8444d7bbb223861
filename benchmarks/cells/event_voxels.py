"""Event-camera voxel grid: polarity events are splatted to time bins with linear weights."""

import torch
import torch.nn as nn


class EventVoxelGrid(nn.Module):
    def __init__(self, bins=5, height=240, width=320):
        super().__init__()
        self.bins, self.height, self.width = bins, height, width

    def forward(self, t, x, y, p):
        t0, t1 = t.min(), t.max()
        tn = (self.bins - 1) * (t - t0) / (t1 - t0).clamp(min=1e-9)
        left = tn.floor()
        pol = 2.0 * p.float() - 1.0
        w = tn - left
        grid = torch.zeros(self.bins * self.height * self.width, device=t.device)
        base = y.long() * self.width + x.long()
        left = left.long()
        grid.index_add_(0, base + left * self.height * self.width, pol * (1 - w))
        ok = left + 1 < self.bins
        right = torch.where(ok, base + (left + 1) * self.height * self.width, base)
        grid.index_add_(0, right, torch.where(ok, pol * w, torch.zeros_like(w)))
        grid = grid.view(self.bins, self.height, self.width)
        nz = grid != 0
        mean = grid.sum() / nz.sum().clamp(min=1)
        return (grid - mean) * nz


inputs = [
    torch.rand(1000003),
    torch.randint(0, 320, (1000003,), dtype=torch.int16),
    torch.randint(0, 240, (1000003,), dtype=torch.int16),
    torch.rand(1000003) > 0.5,
]
