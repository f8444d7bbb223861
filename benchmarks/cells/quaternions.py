"""Points turned by quaternions."""

import torch
from torch.nn import functional as F


def quaternions(q, points):
    q = F.normalize(q, dim=-1)
    u, w = q[..., 1:], q[..., :1]
    t = 2 * torch.cross(u, points, dim=-1)
    return points + w * t + torch.cross(u, t, dim=-1)


inputs = [torch.randn(1048576, 4), torch.randn(1048576, 3)]
