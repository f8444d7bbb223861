"""A layer-wise scaled step: two norms of whole tensors, and the step by their ratio."""

import torch


def trust_step(weight, first, second):
    step = first / (second.sqrt() + 1e-6) + 0.01 * weight
    ratio = weight.norm() / step.norm().clamp_min(1e-6)
    return weight - 0.001 * ratio * step


inputs = [torch.randn(4096, 4096), torch.randn(4096, 4096), torch.rand(4096, 4096)]
