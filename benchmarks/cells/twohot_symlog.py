"""Two-hot symlog critic loss and value read-out of DreamerV3."""

import torch
import torch.nn.functional as F


class TwoHotSymlog(torch.nn.Module):
    def __init__(self, num_bins=255, low=-20.0, high=20.0):
        super().__init__()
        self.num_bins = num_bins
        self.register_buffer("bins", torch.linspace(low, high, num_bins))

    @staticmethod
    def symlog(x):
        return torch.sign(x) * torch.log1p(torch.abs(x))

    @staticmethod
    def symexp(x):
        return torch.sign(x) * torch.expm1(torch.abs(x))

    def forward(self, logits, target, cont):
        x = self.symlog(target)
        below = (self.bins <= x[..., None]).to(torch.int32).sum(dim=-1) - 1
        above = self.num_bins - (self.bins > x[..., None]).to(torch.int32).sum(dim=-1)
        below = below.clamp(0, self.num_bins - 1).long()
        above = above.clamp(0, self.num_bins - 1).long()
        equal = below == above
        dist_below = torch.where(equal, 1, torch.abs(self.bins[below] - x))
        dist_above = torch.where(equal, 1, torch.abs(self.bins[above] - x))
        total = dist_below + dist_above
        two_hot = (
            F.one_hot(below, self.num_bins) * (dist_above / total)[..., None]
            + F.one_hot(above, self.num_bins) * (dist_below / total)[..., None]
        )
        log_pred = logits - torch.logsumexp(logits, dim=-1, keepdim=True)
        loss = -(two_hot * log_pred).sum(-1)
        weight = torch.cumprod(cont, dim=1) / cont[:, :1]
        value = self.symexp((log_pred.exp() * self.bins).sum(-1))
        return (loss * weight.detach()).mean(), value


inputs = [torch.randn(1024, 16, 255), torch.randn(1024, 16) * 50, 0.9 + 0.1 * torch.rand(1024, 16)]
