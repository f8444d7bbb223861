"""3D Gaussian splatting before rasterizing: covariance, projection, conic, radius, tiles, colours."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SplatProject(nn.Module):
    def __init__(self, width=1920, height=1080, tile=16, near=0.2):
        super().__init__()
        self.width, self.height, self.tile, self.near = width, height, tile, near

    def forward(self, means, scales, quats, sh, viewmat, K):
        q = F.normalize(quats, dim=-1)
        w, x, y, z = q.unbind(-1)
        R = torch.stack(
            [
                1 - 2 * (y * y + z * z),
                2 * (x * y - w * z),
                2 * (x * z + w * y),
                2 * (x * y + w * z),
                1 - 2 * (x * x + z * z),
                2 * (y * z - w * x),
                2 * (x * z - w * y),
                2 * (y * z + w * x),
                1 - 2 * (x * x + y * y),
            ],
            -1,
        ).view(-1, 3, 3)
        M = R * scales.exp()[:, None, :]
        cov = M @ M.transpose(1, 2)
        Rv, tv = viewmat[:3, :3], viewmat[:3, 3]
        cam = means @ Rv.T + tv
        depth = cam[:, 2]
        ok = depth > self.near
        tz = torch.where(ok, depth, torch.ones_like(depth))
        fx, fy = K[0, 0], K[1, 1]
        lim_x, lim_y = 1.3 * 0.5 * self.width / fx, 1.3 * 0.5 * self.height / fy
        tx = tz * torch.clamp(cam[:, 0] / tz, -lim_x, lim_x)
        ty = tz * torch.clamp(cam[:, 1] / tz, -lim_y, lim_y)
        J = torch.zeros(means.shape[0], 2, 3, device=means.device)
        J[:, 0, 0] = fx / tz
        J[:, 0, 2] = -fx * tx / tz**2
        J[:, 1, 1] = fy / tz
        J[:, 1, 2] = -fy * ty / tz**2
        T = J @ Rv
        cov2d = torch.einsum("nij,njk,nlk->nil", T, cov, T)
        a, b, c = cov2d[:, 0, 0] + 0.3, cov2d[:, 0, 1], cov2d[:, 1, 1] + 0.3
        det = (a * c - b * b).clamp(min=1e-9)
        conic = torch.stack([c / det, -b / det, a / det], -1)
        mid = 0.5 * (a + c)
        radius = torch.ceil(3 * torch.sqrt(mid + torch.sqrt((mid * mid - det).clamp(min=0.1))))
        xy = cam[:, :2] / tz[:, None] * torch.stack([fx, fy]) + K[:2, 2]
        bounds = torch.tensor([self.width // self.tile, self.height // self.tile], device=means.device)
        lo = torch.clamp(((xy - radius[:, None]) / self.tile).int(), min=0)
        lo = torch.minimum(lo, bounds.int())
        hi = torch.minimum(((xy + radius[:, None]) / self.tile).int() + 1, bounds.int()).clamp(min=0)
        tiles = (hi - lo).clamp(min=0).prod(-1) * ok
        d = F.normalize(means - (-Rv.T @ tv), dim=-1)
        rgb = 0.28209479 * sh[:, 0] + 0.48860251 * (
            -d[:, 1:2] * sh[:, 1] + d[:, 2:3] * sh[:, 2] - d[:, :1] * sh[:, 3]
        )
        return xy, conic, depth, radius * ok, tiles, (rgb + 0.5).clamp(min=0)


_v = torch.eye(4)
_v[2, 3] = 5.0
inputs = [
    torch.randn(500_000, 3),
    torch.randn(500_000, 3) - 4,
    torch.randn(500_000, 4),
    torch.randn(500_000, 4, 3),
    _v,
    torch.tensor([[1200.0, 0, 960], [0, 1200.0, 540], [0, 0, 1]]),
]
