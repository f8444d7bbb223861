"""Circular correlation of embeddings (HolE), and the score of each triple."""

import torch


def hole(h, r, t):
    found = torch.fft.irfft(torch.fft.rfft(h).conj() * torch.fft.rfft(t), n=h.shape[-1])
    return torch.sigmoid((r * found).sum(-1))


inputs = [torch.randn(16384, 512), torch.randn(16384, 512), torch.randn(16384, 512)]
