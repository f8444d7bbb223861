"""Before the attention of a Swin block: tokens are normalised, the image rolled and cut into windows."""

import torch
import torch.nn as nn


class NormIntoWindows(nn.Module):
    def __init__(self, dim=192, window=8, shift=4):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        b, h, w, c = x.shape
        side = self.window
        y = torch.roll(self.norm(x), shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = y.view(b, h // side, side, w // side, side, c).permute(0, 1, 3, 2, 4, 5)
        return y.reshape(-1, side * side, c)


inputs = [torch.randn(16, 64, 64, 192)]
