"""Log densities of points under Gaussians of their own, by Cholesky's factor of a covariance of four."""

import torch


def gaussian_density(points, means, roots):
    covariance = roots @ roots.transpose(1, 2) + 0.5 * torch.eye(4, device=points.device)
    lower = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(lower, (points - means).unsqueeze(-1), upper=False).squeeze(-1)
    logs = lower.diagonal(dim1=1, dim2=2).log().sum(1)
    return -0.5 * (white * white).sum(1) - logs - 2 * 1.8378770664093453


inputs = [torch.randn(200000, 4), torch.randn(200000, 4), torch.randn(200000, 4, 4)]
