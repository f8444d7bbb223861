"""Point-to-plane ICP: residuals, Huber weights, the six by six normal equations and their solution."""

import torch


def icp_normal_equations(source, target, normals, match, pose):
    p = source @ pose[:, :3, :3].transpose(1, 2) + pose[:, None, :3, 3]
    q = target.gather(1, match.unsqueeze(-1).expand(-1, -1, 3))
    n = normals.gather(1, match.unsqueeze(-1).expand(-1, -1, 3))
    r = ((p - q) * n).sum(-1)
    w = torch.where(r.abs() < 0.1, torch.ones_like(r), 0.1 / r.abs().clamp_min(1e-9))
    j = torch.cat([torch.linalg.cross(p, n, dim=-1), n], -1)
    wj = j * w.unsqueeze(-1)
    h = wj.transpose(1, 2) @ j
    g = (wj * r.unsqueeze(-1)).sum(1)
    step = torch.linalg.solve(h + 1e-4 * torch.eye(6, device=h.device), -g)
    return step, (w * r * r).sum(1)


inputs = [
    torch.randn(16, 65536, 3),
    torch.randn(16, 65536, 3),
    torch.nn.functional.normalize(torch.randn(16, 65536, 3), dim=-1),
    torch.randint(0, 65536, (16, 65536)),
    torch.eye(4).repeat(16, 1, 1),
]
