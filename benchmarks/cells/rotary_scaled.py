"""Rotary embedding of queries, with frequencies stretched for long contexts as Llama 3.1 does."""

import math

import torch


def scaled_frequencies(width, device, factor=8.0, low=1.0, high=4.0, old=8192):
    frequency = 1.0 / (500000.0 ** (torch.arange(0, width, 2, device=device).float() / width))
    wavelength = 2 * math.pi / frequency
    smooth = (old / wavelength - low) / (high - low)
    mixed = (1 - smooth) * frequency / factor + smooth * frequency
    stretched = torch.where(wavelength > old / low, frequency / factor, frequency)
    return torch.where((wavelength <= old / low) & (wavelength >= old / high), mixed, stretched)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def rotary_scaled(q, position_ids):
    frequency = scaled_frequencies(q.shape[-1], q.device)
    angles = position_ids[:, :, None].float() * frequency
    emb = torch.cat((angles, angles), dim=-1)
    cos, sin = emb.cos().to(q.dtype).unsqueeze(1), emb.sin().to(q.dtype).unsqueeze(1)
    return q * cos + rotate_half(q) * sin


inputs = [
    torch.randn(4, 32, 2048, 128, dtype=torch.bfloat16),
    torch.arange(2048).expand(4, 2048).contiguous(),
]
