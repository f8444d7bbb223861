"""Kullback-Leibler divergence of diagonal Gaussians from the normal one."""

import torch


def gaussian_divergence(mean, log_variance):
    return 0.5 * (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean()


inputs = [torch.randn(16384, 512), torch.randn(16384, 512)]
