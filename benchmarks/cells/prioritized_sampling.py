"""Prioritised replay: priorities to probabilities, stratified indices by search, importance weights."""

import torch


class PrioritizedSampling(torch.nn.Module):
    def __init__(self, alpha=0.6, beta=0.4):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, td_error, u):
        p = (td_error.abs() + 1e-6).pow(self.alpha)
        cdf = torch.cumsum(p, 0)
        total = cdf[-1]
        n = u.shape[0]
        strata = (torch.arange(n, device=u.device) + u) / n * total
        idx = torch.searchsorted(cdf, strata).clamp(max=td_error.shape[0] - 1)
        w = (td_error.shape[0] * p[idx] / total).pow(-self.beta)
        return idx, w / w.max()


inputs = [torch.randn(2000000), torch.rand(65536)]
