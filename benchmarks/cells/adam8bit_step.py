"""AdamW with both moments kept as 8-bit codes of a codebook, absmax by blocks of 256."""

import torch
import torch.nn as nn


class Adam8bit(nn.Module):
    def __init__(self, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8, wd=0.01, block=256):
        super().__init__()
        self.lr, self.b1, self.b2, self.eps, self.wd, self.block = lr, b1, b2, eps, wd, block
        signed = torch.linspace(-1, 1, 255) ** 3
        self.register_buffer("signed", torch.cat([signed, torch.ones(1)]).sort().values)
        self.register_buffer("unsigned", torch.linspace(0, 1, 256) ** 4)

    def quantize(self, x, code):
        absmax = x.abs().amax(dim=1)
        y = x / absmax.clamp(min=1e-12)[:, None]
        mids = (code[1:] + code[:-1]) / 2
        return torch.bucketize(y, mids).to(torch.uint8), absmax

    def forward(self, p, g, m8, m_max, v8, v_max):
        pb, gb = p.view(-1, self.block), g.view(-1, self.block).float()
        m = self.signed[m8.long()] * m_max[:, None]
        v = self.unsigned[v8.long()] * v_max[:, None]
        m = m.lerp(gb, 1 - self.b1)
        v = v * self.b2 + (1 - self.b2) * gb * gb
        update = (m / (1 - self.b1**10)) / ((v / (1 - self.b2**10)).sqrt() + self.eps)
        pb = pb * (1 - self.lr * self.wd) - self.lr * update
        m8, m_max = self.quantize(m, self.signed)
        v8, v_max = self.quantize(v, self.unsigned)
        return pb.view_as(p), m8, m_max, v8, v_max


inputs = [
    torch.randn(1024, 2048),
    torch.randn(1024, 2048).bfloat16(),
    torch.randint(0, 256, (8192, 256), dtype=torch.uint8),
    torch.rand(8192),
    torch.randint(0, 256, (8192, 256), dtype=torch.uint8),
    torch.rand(8192),
]
