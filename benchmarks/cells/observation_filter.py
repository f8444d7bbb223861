"""Observation normaliser of a parallel RL trainer: batch moments into running ones, scale, clip."""

import torch


class RunningMeanStd(torch.nn.Module):
    def __init__(self, dims=60, clip=10.0, eps=1e-5):
        super().__init__()
        self.clip, self.eps = clip, eps
        self.register_buffer("running_mean", torch.zeros(dims, dtype=torch.float64))
        self.register_buffer("running_var", torch.ones(dims, dtype=torch.float64))
        self.register_buffer("count", torch.ones((), dtype=torch.float64))

    def forward(self, obs, valid):
        obs = torch.nan_to_num(obs, nan=0.0, posinf=1e4, neginf=-1e4)
        m = valid.unsqueeze(-1).to(obs.dtype)
        batch_count = m.sum().to(torch.float64)
        batch_mean = ((obs * m).sum(dim=(0, 1)) / batch_count).to(torch.float64)
        centred = (obs - batch_mean.float()) * m
        batch_var = ((centred * centred).sum(dim=(0, 1)) / batch_count).to(torch.float64)
        delta = batch_mean - self.running_mean
        total = self.count + batch_count
        new_mean = self.running_mean + delta * batch_count / total
        m2 = (
            self.running_var * self.count
            + batch_var * batch_count
            + delta**2 * self.count * batch_count / total
        )
        new_var = m2 / total
        y = (obs - new_mean.float()) / torch.sqrt(new_var.float() + self.eps)
        y = torch.clamp(y, min=-self.clip, max=self.clip)
        clipped = (y.abs() >= self.clip).float().mean(dim=(0, 1))
        return y, new_mean, new_var, total, clipped


inputs = [torch.randn(32, 4096, 60) * 3 + 1, torch.rand(32, 4096) > 0.1]
