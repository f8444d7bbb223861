import torch
from torch.nn import functional as F


def layer_norm(x, weight, bias):
    return F.layer_norm(x, (96,), weight, bias, 1e-5)


inputs = [torch.randn(64, 96), torch.randn(96), torch.randn(96)]
