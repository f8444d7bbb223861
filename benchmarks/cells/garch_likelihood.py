"""Log likelihood of a GARCH(1,1) for many series, each with parameters of its own."""

import math

import torch


def garch_likelihood(returns, omega, alpha, beta):
    sigma2 = returns.var(dim=1, unbiased=False)
    loglik = torch.zeros_like(sigma2)
    for t in range(returns.size(1)):
        r = returns[:, t]
        loglik += -0.5 * (math.log(2 * math.pi) + torch.log(sigma2) + r**2 / sigma2)
        sigma2 = omega + alpha * r**2 + beta * sigma2
    return loglik


inputs = [
    torch.randn(65536, 64) * 0.02,
    torch.rand(65536) * 1e-5 + 1e-6,
    torch.rand(65536) * 0.1,
    torch.rand(65536) * 0.1 + 0.8,
]
