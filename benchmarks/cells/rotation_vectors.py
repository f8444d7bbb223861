"""Rotation vectors of quaternions, written component by component."""

import torch
from torch.nn import functional as F


def rotation_vectors(quaternions):
    w, x, y, z = F.normalize(quaternions, dim=-1).split(1, -1)
    sine = (x * x + y * y + z * z).sqrt()
    turned = torch.where(w < 0, torch.atan2(-sine, -w), torch.atan2(sine, w))
    by = torch.where(sine > 1e-6, 2 * turned / sine, torch.full_like(sine, 2.0))[..., 0]
    out = torch.zeros_like(quaternions)[..., :3]
    out[..., 0] += x[..., 0] * by
    out[..., 1] += y[..., 0] * by
    out[..., 2] += z[..., 0] * by
    return out


inputs = [torch.randn(1 << 20, 4)]
