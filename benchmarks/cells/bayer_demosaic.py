"""A raw image to colours: black level, bilinear demosaic by strided slices, colour matrix, sRGB, bytes."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Demosaic(nn.Module):
    def __init__(self, black=64, white=1023):
        super().__init__()
        self.black, self.white = black, white
        self.register_buffer("ccm", torch.tensor([[1.7, -0.5, -0.2], [-0.3, 1.6, -0.3], [0.0, -0.6, 1.6]]))
        self.register_buffer("wb", torch.tensor([2.0, 1.0, 1.6]))

    def forward(self, raw):
        x = (raw.to(torch.int32) - self.black).clamp(min=0).float() / (self.white - self.black)
        n, h, w = x.shape
        out = x.new_zeros(n, 3, h, w)
        r, g1, g2, b = x[:, ::2, ::2], x[:, ::2, 1::2], x[:, 1::2, ::2], x[:, 1::2, 1::2]
        out[:, 0, ::2, ::2] = r
        out[:, 0, ::2, 1::2] = (r + torch.roll(r, -1, 2)) / 2
        out[:, 0, 1::2, ::2] = (r + torch.roll(r, -1, 1)) / 2
        out[:, 0, 1::2, 1::2] = (
            r + torch.roll(r, -1, 1) + torch.roll(r, -1, 2) + torch.roll(r, (-1, -1), (1, 2))
        ) / 4
        out[:, 2, 1::2, 1::2] = b
        out[:, 2, 1::2, ::2] = (b + torch.roll(b, 1, 2)) / 2
        out[:, 2, ::2, 1::2] = (b + torch.roll(b, 1, 1)) / 2
        out[:, 2, ::2, ::2] = (
            b + torch.roll(b, 1, 1) + torch.roll(b, 1, 2) + torch.roll(b, (1, 1), (1, 2))
        ) / 4
        out[:, 1, ::2, 1::2] = g1
        out[:, 1, 1::2, ::2] = g2
        gx = F.pad(x[:, None], (1, 1, 1, 1), mode="reflect")[:, 0]
        mean4 = (gx[:, :-2, 1:-1] + gx[:, 2:, 1:-1] + gx[:, 1:-1, :-2] + gx[:, 1:-1, 2:]) / 4
        out[:, 1, ::2, ::2] = mean4[:, ::2, ::2]
        out[:, 1, 1::2, 1::2] = mean4[:, 1::2, 1::2]
        out = out * self.wb[None, :, None, None]
        out = torch.einsum("ij,njhw->nihw", self.ccm, out).clamp(0, 1)
        srgb = torch.where(out <= 0.0031308, out * 12.92, 1.055 * out.clamp(min=1e-8) ** (1 / 2.4) - 0.055)
        return (srgb * 255 + 0.5).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


inputs = [torch.randint(0, 1024, (4, 1536, 2048)).to(torch.int16)]
