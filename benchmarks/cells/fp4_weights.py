"""Dequantisation of MXFP4 expert weights (nibbles, block scales) to transposed bfloat16."""

import torch


class DequantizeMXFP4(torch.nn.Module):
    def __init__(self, dtype=torch.bfloat16):
        super().__init__()
        lut = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]
        self.register_buffer("lut", torch.tensor(lut, dtype=dtype))

    def forward(self, blocks, scales):
        *prefix, g, b = blocks.shape
        exp = scales.to(torch.int32) - 127
        idx_lo = (blocks & 0x0F).to(torch.long)
        idx_hi = (blocks >> 4).to(torch.long)
        out = torch.stack((self.lut[idx_lo], self.lut[idx_hi]), dim=-1).reshape(*prefix, g, b * 2)
        out = torch.ldexp(out.float(), exp.unsqueeze(-1)).to(self.lut.dtype)
        out = out.reshape(*prefix, g * b * 2)
        return out.transpose(1, 2).contiguous()


inputs = [
    torch.randint(0, 256, (4, 1440, 90, 16), dtype=torch.uint8),
    torch.randint(110, 128, (4, 1440, 90), dtype=torch.uint8),
]
