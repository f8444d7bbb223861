"""ConvNeXt V2's global response normalisation, channels last."""

import torch
import torch.nn as nn


class GlobalResponse(nn.Module):
    def __init__(self, dim=768):
        super().__init__()
        self.gamma = nn.Parameter(torch.randn(1, 1, 1, dim))
        self.beta = nn.Parameter(torch.randn(1, 1, 1, dim))

    def forward(self, x):
        gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x


inputs = [torch.randn(32, 28, 28, 768)]
