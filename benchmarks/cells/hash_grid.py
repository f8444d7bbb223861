"""Multi-resolution hash grid encoding (instant neural graphics primitives) with trilinear blending."""

import math

import torch


class HashGrid(torch.nn.Module):
    def __init__(self, levels=16, log2_size=15, features=2, base=16, finest=1024):
        super().__init__()
        self.levels, self.features, self.size = levels, features, 2**log2_size
        growth = math.exp((math.log(finest) - math.log(base)) / (levels - 1))
        self.register_buffer("scalings", torch.floor(base * growth ** torch.arange(levels)))
        self.register_buffer("hash_offset", torch.arange(levels) * self.size)
        self.hash_table = torch.nn.Parameter((torch.rand(levels * self.size, features) * 2 - 1) * 1e-1)

    def hash_fn(self, c):
        c = c * torch.tensor([1, 2654435761, 805459861], device=c.device)
        x = torch.bitwise_xor(c[..., 0], c[..., 1])
        x = torch.bitwise_xor(x, c[..., 2])
        x %= self.size
        return x + self.hash_offset

    def forward(self, xyz):
        scaled = xyz[..., None, :] * self.scalings.view(-1, 1)
        hi = torch.ceil(scaled).to(torch.int64)
        lo = torch.floor(scaled).to(torch.int64)
        off = scaled - lo

        def f(a, b, c):
            return self.hash_table[self.hash_fn(torch.cat([a[..., 0:1], b[..., 1:2], c[..., 2:3]], dim=-1))]

        f03 = f(hi, hi, hi) * off[..., 0:1] + f(lo, hi, hi) * (1 - off[..., 0:1])
        f12 = f(hi, lo, hi) * off[..., 0:1] + f(lo, lo, hi) * (1 - off[..., 0:1])
        f56 = f(hi, lo, lo) * off[..., 0:1] + f(lo, lo, lo) * (1 - off[..., 0:1])
        f47 = f(hi, hi, lo) * off[..., 0:1] + f(lo, hi, lo) * (1 - off[..., 0:1])
        f0312 = f03 * off[..., 1:2] + f12 * (1 - off[..., 1:2])
        f4756 = f47 * off[..., 1:2] + f56 * (1 - off[..., 1:2])
        encoded = f0312 * off[..., 2:3] + f4756 * (1 - off[..., 2:3])
        return torch.flatten(encoded, start_dim=-2, end_dim=-1)


inputs = [torch.rand(65536, 3)]
