"""A Fourier neural operator's layer in one dimension: low modes are mixed by complex weights."""

import torch
from torch import nn


class SpectralConv1d(nn.Module):
    def __init__(self, width=64, modes=32):
        super().__init__()
        self.modes = modes
        self.weights = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width**2)

    def forward(self, x):
        ft = torch.fft.rfft(x)
        low = torch.einsum("bix,iox->box", ft[:, :, : self.modes], self.weights)
        out = torch.zeros(
            x.shape[0], self.weights.shape[1], x.size(-1) // 2 + 1, dtype=torch.cfloat, device=x.device
        )
        out[:, :, : self.modes] = low
        return torch.fft.irfft(out, n=x.size(-1))


inputs = [torch.randn(32, 64, 1024)]
