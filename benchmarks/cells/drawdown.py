"""The largest fall from a peak, of many series."""

import torch


def drawdown(prices):
    peaks = prices.cummax(-1).values
    return ((peaks - prices) / peaks).amax(-1)


inputs = [torch.rand(8192, 2048) + 0.5]
