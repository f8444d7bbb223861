"""Weights out of int8, a scale a row, to bfloat16."""

import torch


def int8_weights(w, scale):
    return w.to(torch.bfloat16) * scale[:, None]


inputs = [torch.randint(-128, 128, (8192, 8192), dtype=torch.int8), torch.rand(8192, dtype=torch.bfloat16)]
