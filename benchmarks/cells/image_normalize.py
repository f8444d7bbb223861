"""Bytes of an image to normalised planes of float16."""

import torch


def image_normalize(x, mean, std):
    return ((x.permute(0, 3, 1, 2).float() / 255 - mean[:, None, None]) / std[:, None, None]).half()


inputs = [torch.randint(0, 256, (64, 256, 256, 3), dtype=torch.uint8), torch.rand(3), torch.rand(3) + 0.5]
