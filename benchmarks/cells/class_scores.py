"""Mahalanobis distances with a diagonal covariance for every class."""

import torch


class ClassScores(torch.nn.Module):
    def __init__(self, classes=256, width=64):
        super().__init__()
        self.mean = torch.nn.Parameter(torch.randn(classes, width))
        self.log_var = torch.nn.Parameter(torch.randn(classes, width) * 0.1)

    def forward(self, x):
        precision = torch.exp(-self.log_var)
        distance = ((x.unsqueeze(1) - self.mean.unsqueeze(0)) ** 2 * precision).sum(-1)
        return -0.5 * (distance + self.log_var.sum(-1))


inputs = [torch.randn(16384, 64)]
