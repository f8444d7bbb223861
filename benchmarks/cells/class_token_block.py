"""The last block of an image classifier, of whose tokens the first is read."""

import torch
from torch.nn import functional as F


def class_token_block(x, to_qkv, to_out, wide, narrow, classes):
    b, t, c = x.shape
    q, k, v = F.linear(F.layer_norm(x, (c,)), to_qkv).view(b, t, 3, 6, c // 6).permute(2, 0, 3, 1, 4)
    seen = ((q @ k.mT) * (c // 6) ** -0.5).softmax(-1) @ v
    x = x + F.linear(seen.transpose(1, 2).reshape(b, t, c), to_out)
    x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (c,)), wide)), narrow)
    return F.linear(F.layer_norm(x, (c,))[:, 0], classes)


inputs = [
    torch.randn(64, 197, 384),
    torch.randn(1152, 384) * 0.05,
    torch.randn(384, 384) * 0.05,
    torch.randn(1536, 384) * 0.05,
    torch.randn(384, 1536) * 0.03,
    torch.randn(1000, 384) * 0.05,
]
