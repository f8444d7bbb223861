"""The convolution kernel of a diagonal state space model (S4D): sums of complex exponentials."""

import math

import torch
from torch import nn


class S4DKernel(nn.Module):
    def __init__(self, width=256, states=64, length=2048):
        super().__init__()
        self.length = length
        self.log_dt = nn.Parameter(torch.rand(width) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.C = nn.Parameter(torch.randn(width, states // 2, dtype=torch.cfloat))
        self.log_A_real = nn.Parameter(torch.log(0.5 * torch.ones(width, states // 2)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(states // 2).float().repeat(width, 1))

    def forward(self, scale):
        dt = torch.exp(self.log_dt) * scale
        A = -torch.exp(self.log_A_real) + 1j * self.A_imag
        dtA = A * dt.unsqueeze(-1)
        K = dtA.unsqueeze(-1) * torch.arange(self.length, device=A.device)
        C = self.C * (torch.exp(dtA) - 1.0) / A
        return 2 * torch.einsum("hn,hnl->hl", C, torch.exp(K)).real


inputs = [torch.ones(256) + 0.1 * torch.randn(256)]
