"""Projection of 3D Gaussians to screen: EWA covariance, conic, radius, tile rectangle and visibility."""

import torch
import torch.nn.functional as F


class ProjectGaussians(torch.nn.Module):
    def __init__(self, width=1920, height=1080, focal=1200.0, tile=16):
        super().__init__()
        self.width, self.height, self.focal, self.tile = width, height, focal, tile

    def forward(self, means, log_scales, quats, viewmat):
        w, x, y, z = F.normalize(quats, dim=-1).unbind(-1)
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
            dim=-1,
        ).reshape(-1, 3, 3)
        M = R * torch.exp(log_scales)[:, None, :]
        cov3d = M @ M.transpose(1, 2)
        W, t = viewmat[:3, :3], viewmat[:3, 3]
        p = (W[None] * means[:, None, :]).sum(-1) + t
        depth = p[:, 2].clamp(min=0.01)
        limx, limy = 1.3 * 0.5 * self.width / self.focal, 1.3 * 0.5 * self.height / self.focal
        tx = depth * torch.clamp(p[:, 0] / depth, -limx, limx)
        ty = depth * torch.clamp(p[:, 1] / depth, -limy, limy)
        zero = torch.zeros_like(depth)
        J = torch.stack(
            [
                self.focal / depth,
                zero,
                -self.focal * tx / depth**2,
                zero,
                self.focal / depth,
                -self.focal * ty / depth**2,
            ],
            dim=-1,
        ).reshape(-1, 2, 3)
        T = torch.matmul(J, W)
        cov2d = T @ cov3d @ T.transpose(1, 2)
        a, b, c = cov2d[:, 0, 0] + 0.3, cov2d[:, 0, 1], cov2d[:, 1, 1] + 0.3
        det = a * c - b * b
        conic = torch.stack([c / det, -b / det, a / det], dim=-1)
        mid = 0.5 * (a + c)
        radius = torch.ceil(3.0 * torch.sqrt(mid + torch.sqrt((mid * mid - det).clamp(min=0.1))))
        uv = torch.stack(
            [
                self.focal * p[:, 0] / depth + 0.5 * self.width,
                self.focal * p[:, 1] / depth + 0.5 * self.height,
            ],
            -1,
        )
        visible = (p[:, 2] > 0.2) & (det > 0) & (uv[:, 0] + radius > 0) & (uv[:, 0] - radius < self.width)
        lo = torch.floor((uv - radius[:, None]) / self.tile).clamp(0, 120).int()
        hi = torch.ceil((uv + radius[:, None]) / self.tile).clamp(0, 120).int()
        return uv, conic, torch.where(visible, radius, zero).int(), (hi - lo).prod(dim=-1) * visible, p[:, 2]


inputs = [
    torch.randn(500000, 3),
    torch.rand(500000, 3) - 5.0,
    torch.randn(500000, 4),
    torch.tensor([[1.0, 0, 0, 0], [0, 0.96, -0.28, 0], [0, 0.28, 0.96, 5.0], [0, 0, 0, 1.0]]),
]
