"""Normalised min-sum decoding of a regular LDPC code: a few flooding iterations, hard bits and syndrome."""

import torch


class MinSumDecoder(torch.nn.Module):
    def __init__(self, n=1944, row_weight=6, col_weight=3, iterations=3, alpha=0.8125, clip=20.0):
        super().__init__()
        self.n, self.iterations, self.alpha, self.clip = n, iterations, alpha, clip
        perms = [(torch.arange(n) * s + o) % n for s, o in zip((1, 5, 7, 11), (0, 3, 17, 29), strict=True)]
        self.register_buffer("check_vars", torch.cat(perms).view(-1, row_weight))

    def forward(self, llr):
        b = llr.shape[0]
        m, d = self.check_vars.shape
        flat = self.check_vars.reshape(-1)
        c2v = torch.zeros(b, m, d, dtype=llr.dtype, device=llr.device)
        total = llr
        for _ in range(self.iterations):
            v2c = total.index_select(1, flat).view(b, m, d) - c2v
            sign = torch.where(v2c < 0, -1.0, 1.0)
            parity = sign.prod(dim=-1, keepdim=True)
            mag = v2c.abs()
            two = torch.topk(mag, 2, dim=-1, largest=False)
            min1, min2 = two.values[..., :1], two.values[..., 1:]
            is_min = torch.arange(d, device=llr.device) == two.indices[..., :1]
            c2v = self.alpha * parity * sign * torch.where(is_min, min2, min1)
            total = llr.index_add(1, flat, c2v.reshape(b, -1)).clamp(-self.clip, self.clip)
        bits = (total < 0).to(torch.uint8)
        syndrome = bits.index_select(1, flat).view(b, m, d).sum(-1) % 2
        return bits, total, (syndrome.sum(-1) == 0), syndrome.float().mean(-1)


inputs = [torch.randn(1024, 1944) * 2 + 2]
