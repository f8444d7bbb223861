"""Twists of SE(3) to poses by series near zero, composed with other poses, and back."""

import torch
import torch.nn as nn


class Se3ExpLog(nn.Module):
    def hat(self, w):
        z = torch.zeros_like(w[..., 0])
        return torch.stack(
            [z, -w[..., 2], w[..., 1], w[..., 2], z, -w[..., 0], -w[..., 1], w[..., 0], z], -1
        ).reshape(*w.shape[:-1], 3, 3)

    def exp(self, xi):
        rho, phi = xi.split(3, dim=-1)
        theta2 = phi.square().sum(-1)[..., None, None]
        theta = theta2.clamp(min=1e-12).sqrt()
        small = theta2 < 1e-6
        a = torch.where(small, 1 - theta2 / 6, theta.sin() / theta)
        b = torch.where(small, 0.5 - theta2 / 24, (1 - theta.cos()) / theta2.clamp(min=1e-12))
        c = torch.where(
            small, 1 / 6 - theta2 / 120, (theta - theta.sin()) / (theta2 * theta).clamp(min=1e-12)
        )
        w = self.hat(phi)
        w2 = w @ w
        eye = torch.eye(3, device=xi.device, dtype=xi.dtype)
        r = eye + a * w + b * w2
        t = ((eye + b * w + c * w2) @ rho.unsqueeze(-1)).squeeze(-1)
        return r, t

    def forward(self, xi, pose):
        r, t = self.exp(xi)
        out = torch.eye(4, device=xi.device, dtype=xi.dtype).repeat(xi.shape[0], 1, 1)
        out[:, :3, :3] = r
        out[:, :3, 3] = t
        new = out @ pose
        rn = new[:, :3, :3]
        trace = rn.diagonal(dim1=-2, dim2=-1).sum(-1)
        cos = ((trace - 1) / 2).clamp(-1 + 1e-6, 1 - 1e-6)
        th = torch.acos(cos)
        vee = torch.stack(
            [rn[:, 2, 1] - rn[:, 1, 2], rn[:, 0, 2] - rn[:, 2, 0], rn[:, 1, 0] - rn[:, 0, 1]], -1
        )
        log = (th / (2 * th.sin()))[:, None] * vee
        return new, log


_q = torch.eye(4).repeat(500_000, 1, 1)
_q[:, :3, 3] = torch.randn(500_000, 3)
inputs = [torch.randn(500_000, 6) * 0.5, _q]
