"""Rotation matrices of axis-angle vectors, by Rodrigues' formula."""

import torch


def skew(v):
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    zero = torch.zeros_like(x)
    return torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], dim=-1).view(*v.shape[:-1], 3, 3)


def skew_rotations(rotvec):
    angle = rotvec.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    k = skew(rotvec / angle)
    angle = angle[..., None]
    eye = torch.eye(3, device=rotvec.device, dtype=rotvec.dtype)
    return eye + torch.sin(angle) * k + (1 - torch.cos(angle)) * torch.bmm(k, k)


inputs = [torch.randn(400000, 3)]
