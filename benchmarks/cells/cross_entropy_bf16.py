"""Cross entropy of bfloat16 logits in float32."""

import torch
from torch.nn import functional as F


def cross_entropy_bf16(logits, target):
    return F.cross_entropy(logits.float(), target)


inputs = [torch.randn(4096, 32000, dtype=torch.bfloat16), torch.randint(0, 32000, (4096,))]
