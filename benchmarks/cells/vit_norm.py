"""Layer norm of a small batch of image tokens."""

import torch
from torch.nn import functional as F


def vit_norm(x, weight, bias):
    return F.layer_norm(x, (768,), weight, bias)


inputs = [torch.randn(8, 197, 768), torch.randn(768), torch.randn(768)]
