"""Finite scalar quantisation (FSQ) bottleneck of an audio codec with several codebooks, channels first."""

import torch


class FiniteScalarQuantizer(torch.nn.Module):
    def __init__(self, levels=(8, 5, 5, 5), codebooks=6):
        super().__init__()
        self.codebooks, self.dim = codebooks, len(levels)
        lv = torch.tensor(levels, dtype=torch.int32)
        self.register_buffer("levels", lv)
        self.register_buffer(
            "basis", torch.cumprod(torch.tensor((1, *tuple(levels[:-1]))), dim=0, dtype=torch.int32)
        )

    def bound(self, z, eps=1e-3):
        half_l = (self.levels - 1) * (1 + eps) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        shift = (offset / half_l).atanh()
        return (z + shift).tanh() * half_l - offset

    def indices_to_codes(self, indices):
        half = self.levels // 2
        level_idx = (indices.unsqueeze(-1) // self.basis) % self.levels
        return (level_idx - half) / half

    def forward(self, z):
        b, c, t = z.shape
        z = z.transpose(1, 2).reshape(b, t, self.codebooks, self.dim)
        bounded = self.bound(z.float())
        quantized = bounded + (bounded.round() - bounded).detach()
        half_width = self.levels // 2
        codes = quantized / half_width
        indices = ((codes * half_width + half_width) * self.basis).sum(dim=-1).round().to(torch.int32)
        error = (self.indices_to_codes(indices) - bounded / half_width).pow(2).mean(dim=(1, 3))
        out = codes.reshape(b, t, c).transpose(1, 2).contiguous().to(z.dtype)
        return out, indices.permute(2, 0, 1).contiguous(), error


inputs = [torch.randn(64, 24, 6000).to(torch.bfloat16)]
