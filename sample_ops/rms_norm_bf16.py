"""RMS norm with bfloat16 in and out: half the bytes, and a question of rounding.

Why it is interesting: bfloat16 has 8 bits of precision, so a sum of 4096 squares kept in bfloat16 stops
growing at about 256. Loads and stores are 16 bits wide, the arithmetic must be 32 bits wide.

Look for: eight elements a 128-bit load, and the error bound: one rounding at the end, not one a step.
"""

import torch


def rms_norm_bf16(x, weight):
    wide = x.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
    return (normed * weight.float()).to(torch.bfloat16)


inputs = [torch.randn(8192, 4096, dtype=torch.bfloat16), torch.randn(4096, dtype=torch.bfloat16)]
shapes = [(16, 4096), (2048, 8192)]
