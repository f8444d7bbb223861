"""Weights of four bits by a table of sixteen values, scaled by blocks of 64."""

import torch


def normal_float(codes, table, scale):
    values = table[codes.long()]
    return (values.view(-1, 64) * scale[:, None]).to(torch.bfloat16)


inputs = [torch.randint(0, 16, (4096 * 4096,), dtype=torch.uint8), torch.randn(16), torch.rand(4096 * 64)]
