"""Pillars of a lidar's points, the largest feature of each, put on the canvas seen from above."""

import torch


class PillarCanvas(torch.nn.Module):
    def __init__(self, nx=432, ny=496, channels=64):
        super().__init__()
        self.nx, self.ny, self.channels = nx, ny, channels

    def forward(self, features, num_points, coords):
        count = torch.arange(features.shape[1], device=features.device)
        valid = count.view(1, -1) < num_points.view(-1, 1)
        features = torch.relu(features) * valid.unsqueeze(-1).type_as(features)
        pillars = features.max(dim=1)[0]
        canvas = torch.zeros(self.channels, self.nx * self.ny, dtype=features.dtype, device=features.device)
        indices = coords[:, 0] * self.nx + coords[:, 1]
        canvas[:, indices] = pillars.t()
        return canvas.view(1, self.channels, self.ny, self.nx)


cells = torch.randperm(432 * 496)[:12000]
inputs = [
    torch.randn(12000, 32, 64),
    torch.randint(1, 33, (12000,)),
    torch.stack([cells // 432, cells % 432], dim=1),
]
