"""Layer norm over whole pictures, an affine number for every pixel."""

import torch
from torch.nn import functional as F


def whole_layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


inputs = [torch.randn(128, 32, 64, 64), torch.randn(32, 64, 64), torch.randn(32, 64, 64)]
