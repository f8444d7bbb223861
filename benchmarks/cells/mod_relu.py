"""modReLU of complex features and a normalisation by their mean square."""

import torch


def mod_relu(z, bias):
    z = z / (z.abs().square().mean(-1, keepdim=True) + 1e-5).sqrt()
    length = z.abs()
    return torch.relu(length + bias) * z / (length + 1e-6)


inputs = [torch.randn(8192, 1024, dtype=torch.cfloat), torch.randn(1024)]
