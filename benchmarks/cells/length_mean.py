"""Mean of as many tokens of a sequence as it has."""

import torch


def length_mean(x, lengths):
    there = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    return (x * there[..., None]).sum(1) / lengths[:, None]


inputs = [torch.randn(128, 512, 768), torch.randint(1, 513, (128,))]
