"""The soft Hamming distance of census transforms of two grey frames, with Charbonnier's penalty."""

import torch
import torch.nn.functional as F


def census(grey, radius=1):
    d = 2 * radius + 1
    patches = F.unfold(grey, d, padding=radius).view(grey.shape[0], d * d, *grey.shape[2:])
    diff = patches - grey
    return diff / torch.sqrt(0.81 + diff**2)


def census_loss(first, second, mask):
    weights = torch.tensor([0.2989, 0.5870, 0.1140]).view(1, 3, 1, 1).to(first.device)
    t1 = census((first * weights).sum(1, keepdim=True) * 255)
    t2 = census((second * weights).sum(1, keepdim=True) * 255)
    dist = (t1 - t2) ** 2
    dist = (dist / (0.1 + dist)).mean(1, keepdim=True)
    robust = (dist**2 + 1e-6) ** 0.45
    return (robust * mask).sum() / (mask.sum() + 1e-6)


inputs = [torch.rand(8, 3, 384, 512), torch.rand(8, 3, 384, 512), torch.rand(8, 1, 384, 512).round()]
