"""Weights to bfloat16, rounded up or down by given random bits."""

import torch


def stochastic_round(weight, noise):
    bits = weight.view(torch.int32) + (noise & 0xFFFF)
    return (bits & -65536).view(torch.float32).to(torch.bfloat16)


inputs = [torch.randn(4096, 4096), torch.randint(0, 1 << 30, (4096, 4096), dtype=torch.int32)]
