"""Instance norm of images: every channel of every picture by its own mean and variance.

Why it is interesting: the reduction runs over two axes (height and width) that lie next to each other in
memory, so it is a row reduction in disguise, with rows of 262144 elements for a 512 x 512 image: one block
cannot hold such a row in registers.

Look for: how axes are merged, and when a row has to be split over several blocks or read twice.
"""

import torch


def instance_norm(x):
    mean = x.mean(dim=(2, 3), keepdim=True)
    centred = x - mean
    variance = (centred * centred).mean(dim=(2, 3), keepdim=True)
    return centred * torch.rsqrt(variance + 1e-5)


inputs = [torch.randn(16, 64, 256, 256)]
shapes = [(2, 3, 512, 512), (128, 256, 14, 14)]
