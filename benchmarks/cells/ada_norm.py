"""Layer norm with a scale and a shift of the sample, as diffusion transformers have it, bfloat16."""

import torch
from torch.nn import functional as F


def ada_norm(x, shift, scale):
    return F.layer_norm(x, (1152,)) * (1 + scale[:, None]) + shift[:, None]


inputs = [
    torch.randn(32, 256, 1152, dtype=torch.bfloat16),
    torch.randn(32, 1152, dtype=torch.bfloat16),
    torch.randn(32, 1152, dtype=torch.bfloat16),
]
