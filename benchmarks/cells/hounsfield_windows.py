"""Slices of a CT in three windows (brain, subdural, bone), as the channels of an image."""

import torch


class HounsfieldWindows(torch.nn.Module):
    def __init__(self, windows=((40, 80), (80, 200), (600, 2800)), slope=1.0, intercept=-1024.0):
        super().__init__()
        self.slope, self.intercept, self.windows = slope, intercept, windows
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, raw):
        hu = raw.to(torch.float32) * self.slope + self.intercept
        channels = []
        for center, width in self.windows:
            low, high = center - width // 2, center + width // 2
            img = torch.clamp(hu, low, high)
            channels.append((img - low) / (high - low))
        x = torch.stack(channels, dim=1)
        return ((x - self.mean) / self.std).half()


inputs = [torch.randint(0, 4096, (64, 512, 512), dtype=torch.int16)]
