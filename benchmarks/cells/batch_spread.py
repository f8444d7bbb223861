"""The mean standard deviation over a batch, as one more channel."""

import torch


def batch_spread(x):
    spread = x.std(0, unbiased=False).mean()
    return torch.cat([x, spread.expand(x.shape[0], 1, *x.shape[2:])], 1)


inputs = [torch.randn(16, 512, 32, 32)]
