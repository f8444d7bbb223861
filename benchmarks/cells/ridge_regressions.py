"""Ridge regressions of 40,000 series: eight features, sixty-four observations, and how well each fits."""

import torch


class RidgeRegressions(torch.nn.Module):
    def __init__(self, features=8, penalty=0.1):
        super().__init__()
        self.register_buffer("penalty", penalty * torch.eye(features))

    def forward(self, features, targets):
        normal = features.transpose(1, 2) @ features + self.penalty
        right = features.transpose(1, 2) @ targets.unsqueeze(-1)
        weights = torch.cholesky_solve(right, torch.linalg.cholesky(normal))
        wrong = targets - (features @ weights).squeeze(-1)
        return weights.squeeze(-1), 1 - wrong.square().sum(-1) / targets.var(
            -1, correction=0
        ) / targets.shape[-1]


inputs = [torch.randn(40000, 64, 8), torch.randn(40000, 64)]
