"""Softmax of attention scores under a mask: -inf, and rows that are nearly empty.

Why it is interesting: a masked position counts as -inf, exp(-inf) is 0, and the maximum of a row of -inf
only is -inf as well, where -inf - -inf is NaN. PyTorch gives NaN there, so the kernel must too. The mask
is one byte an element and broadcasts over the heads.

Look for: a byte load beside a 16-byte load, the scale folded into the exponent, and NaN where it belongs.
"""

import torch


def masked_softmax(scores, mask, scale):
    masked = (scores * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(masked, dim=-1)


inputs = [torch.randn(32, 16, 512, 512), torch.rand(32, 1, 512, 512) > 0.2, 0.125]
shapes = [((1, 8, 128, 128), (1, 1, 128, 128)), ((4, 2, 33, 100), (4, 1, 33, 100))]
