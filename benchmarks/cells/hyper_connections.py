"""Hyper-connections: several residual streams mixed dynamically before and after a transformer sublayer."""

import torch


class HyperConnection(torch.nn.Module):
    def __init__(self, dim=1024, rate=4, layer_id=1):
        super().__init__()
        self.rate = rate
        alpha0 = torch.zeros((rate, 1))
        alpha0[layer_id % rate, 0] = 1.0
        self.static_beta = torch.nn.Parameter(torch.ones(rate))
        self.static_alpha = torch.nn.Parameter(torch.cat([alpha0, torch.eye(rate)], dim=1))
        self.dynamic_alpha = torch.nn.Parameter(torch.randn(dim, rate + 1) * 0.02)
        self.dynamic_alpha_scale = torch.nn.Parameter(torch.ones(1) * 0.01)
        self.dynamic_beta = torch.nn.Parameter(torch.randn(dim) * 0.02)
        self.dynamic_beta_scale = torch.nn.Parameter(torch.ones(1) * 0.01)
        self.gain = torch.nn.Parameter(torch.ones(dim))

    def forward(self, streams, branch_out):
        h = streams.float()
        norm_h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain
        wc = torch.tanh(norm_h @ self.dynamic_alpha)
        alpha = wc * self.dynamic_alpha_scale + self.static_alpha
        dc = torch.tanh((norm_h * self.dynamic_beta).sum(-1))
        beta = dc * self.dynamic_beta_scale + self.static_beta
        mix_h = (alpha.transpose(-1, -2).unsqueeze(-1) * h.unsqueeze(-3)).sum(dim=-2)
        branch_in, residual = mix_h[..., 0, :], mix_h[..., 1:, :]
        out = beta.unsqueeze(-1) * branch_out.float().unsqueeze(-2) + residual
        return out.to(streams.dtype), branch_in.to(streams.dtype)


inputs = [torch.randn(2, 2048, 4, 1024).to(torch.bfloat16), torch.randn(2, 2048, 1024).to(torch.bfloat16)]
