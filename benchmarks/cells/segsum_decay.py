"""Mamba-2: the decays of a chunk, exp(segsum(A)), lower triangular, and the decay to the chunk's end."""

import torch


class SegsumDecay(torch.nn.Module):
    def __init__(self, heads=24):
        super().__init__()
        self.A_log = torch.nn.Parameter(torch.log(torch.linspace(1, 16, heads)))
        self.dt_bias = torch.nn.Parameter(torch.linspace(-4, -2, heads))

    def segsum(self, x):
        T = x.size(-1)
        x = x[..., None].repeat(1, 1, 1, 1, T)
        mask = torch.tril(torch.ones(T, T, device=x.device, dtype=torch.bool), diagonal=-1)
        x = x.masked_fill(~mask, 0)
        x_segsum = torch.cumsum(x, dim=-2)
        mask = torch.tril(torch.ones(T, T, device=x.device, dtype=torch.bool), diagonal=0)
        return x_segsum.masked_fill(~mask, -torch.inf)

    def forward(self, dt):
        b, frames, h = dt.shape
        dt = torch.nn.functional.softplus(dt + self.dt_bias)
        A = -torch.exp(self.A_log) * dt
        A = A.view(b, frames // 64, 64, h).permute(0, 3, 1, 2)
        A_cumsum = torch.cumsum(A, dim=-1)
        L = torch.exp(self.segsum(A))
        decay_states = torch.exp(A_cumsum[:, :, :, -1:] - A_cumsum)
        return L, decay_states, torch.exp(A_cumsum[..., -1])


inputs = [torch.randn(4, 2048, 24)]
