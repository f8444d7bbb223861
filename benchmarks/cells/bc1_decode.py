"""Decodes a BC1 (DXT1) texture: two 565 endpoints and sixteen 2-bit selectors a block, to RGB8 planes."""

import torch
import torch.nn.functional as F


def unpack565(c):
    r, g, b = (c >> 11) & 31, (c >> 5) & 63, c & 31
    return torch.stack([(r << 3) | (r >> 2), (g << 2) | (g >> 4), (b << 3) | (b >> 2)], dim=-1)


def bc1_decode(endpoints, selectors):
    # endpoints (by, bx, 2) int32 of 16 bits, selectors (by, bx, 4) uint8, a row of the block each
    c0, c1 = endpoints.unbind(-1)
    a, b = unpack565(c0), unpack565(c1)
    opaque = (c0 > c1).unsqueeze(-1)
    p2 = torch.where(opaque, (2 * a + b) // 3, (a + b) // 2)
    p3 = torch.where(opaque, (a + 2 * b) // 3, torch.zeros_like(a))
    palette = torch.stack([a, b, p2, p3], dim=-2)  # (by, bx, 4, 3)
    shifts = torch.arange(0, 8, 2, device=selectors.device, dtype=torch.uint8)
    sel = ((selectors.unsqueeze(-1) >> shifts) & 3).flatten(-2).long()  # (by, bx, 16)
    texels = torch.take_along_dim(palette, sel.unsqueeze(-1), dim=2)  # (by, bx, 16, 3)
    planes = texels.permute(3, 2, 0, 1).reshape(1, 48, *c0.shape)
    return F.pixel_shuffle(planes, 4).squeeze(0).to(torch.uint8)


inputs = [
    torch.randint(0, 65536, (512, 768, 2), dtype=torch.int32),
    torch.randint(0, 256, (512, 768, 4), dtype=torch.uint8),
]
