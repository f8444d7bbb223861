"""Volume-weighted average price since the open, its band, and how far the price is from it."""

import torch


def vwap(price, volume):
    weight = torch.cumsum(volume, 1)
    mean = torch.cumsum(price * volume, 1) / weight
    variance = torch.cumsum(price.square() * volume, 1) / weight - mean.square()
    return mean, (price - mean) / variance.clamp(min=1e-6).sqrt()


inputs = [100 + torch.randn(5000, 390), torch.rand(5000, 390) + 0.1]
