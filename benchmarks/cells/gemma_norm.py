"""RMS norm with weights around zero, bfloat16 in and out, float32 inside."""

import torch


def gemma_norm(x, weight):
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * (1.0 + weight.float())).type_as(x)


inputs = [torch.randn(8192, 3072, dtype=torch.bfloat16), torch.randn(3072, dtype=torch.bfloat16)]
