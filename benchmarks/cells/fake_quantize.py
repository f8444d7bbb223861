"""Activations through int8 and back with one scale."""

import torch


def fake_quantize(x, scale):
    return (x / scale).round().clamp(-128, 127) * scale


inputs = [torch.randn(4096, 4096), torch.tensor(0.05)]
