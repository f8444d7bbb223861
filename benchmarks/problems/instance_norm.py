"""Instance norm of images, written out."""

import torch


def instance_norm(x):
    mean = x.mean(dim=(2, 3), keepdim=True)
    centred = x - mean
    variance = (centred * centred).mean(dim=(2, 3), keepdim=True)
    return centred * torch.rsqrt(variance + 1e-5)


inputs = [torch.randn(4, 64, 128, 128)]
shapes = [(112, 64, 512, 512)]
