"""A matrix turned, to bfloat16."""

import torch


def transpose_to_bf16(x):
    return x.t().to(torch.bfloat16).contiguous()


inputs = [torch.randn(8192, 4096)]
