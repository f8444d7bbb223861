"""Rows to int8 with a scale each."""

import torch


def quantize_rows(x):
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


inputs = [torch.randn(8192, 4096)]
