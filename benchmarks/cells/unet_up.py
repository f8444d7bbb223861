"""A UNet on its way up: twice as large, padded to what it is joined with, two convolutions with norms."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class UNetUp(nn.Module):
    def __init__(self, cin=128, cout=64):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.c1 = nn.Conv2d(cin, cin // 2, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(cin // 2)
        self.c2 = nn.Conv2d(cin // 2, cout, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(cout)
        self.eval()

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size(2) - x1.size(2), x2.size(3) - x1.size(3)
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        x = torch.cat([x2, x1], dim=1)
        x = F.relu(self.b1(self.c1(x)), inplace=True)
        return F.relu(self.b2(self.c2(x)), inplace=True)


inputs = [torch.randn(4, 64, 80, 120), torch.randn(4, 64, 161, 241)]
