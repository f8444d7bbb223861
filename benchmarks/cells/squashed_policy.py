"""Actions of a squashed Gaussian policy and their log probability, as soft actor-critic has them."""

import math

import torch
import torch.nn.functional as F


class SquashedPolicy(torch.nn.Module):
    LOG_STD_MIN, LOG_STD_MAX = -20, 2

    def __init__(self, dims=16, deterministic=False):
        super().__init__()
        self.deterministic = deterministic
        self.register_buffer("scale", torch.full((dims,), 2.0))

    def forward(self, head, noise):
        mu, log_std = head.chunk(2, dim=-1)
        log_std = torch.clamp(log_std, self.LOG_STD_MIN, self.LOG_STD_MAX)
        std = log_std.exp()
        pre = mu if self.deterministic else mu + std * noise
        logp = (-((pre - mu) ** 2) / (2 * std**2) - log_std - math.log(math.sqrt(2 * math.pi))).sum(-1)
        logp -= (2 * (math.log(2) - pre - F.softplus(-2 * pre))).sum(dim=-1)
        return self.scale * torch.tanh(pre), logp


inputs = [torch.randn(262144, 32), torch.randn(262144, 16)]
