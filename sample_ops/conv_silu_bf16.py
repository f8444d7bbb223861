"""A convolution block of an image generator in bfloat16: conv, bias, what the time step adds, SiLU.

Why it is interesting: numbers of 16 bits go to tensor cores as they are, so a convolution is soon waiting for
memory. The library wants channels side by side: it turns the input round, and the results back, beside the
convolution itself. A kernel that takes the tensors as they lie moves each once, and has the rest in it.

Look for: the library share of a first branch, and none in the best; the block size of the best, and how many
blocks share a multiprocessor then; the worst error: results are rounded once, in eager mode four times.
"""

import torch
from torch import nn
from torch.nn import functional as F


class ConvSiluBf16(nn.Module):
    def __init__(self, channels, features):
        super().__init__()
        self.conv = nn.Conv2d(channels, features, kernel_size=3, padding=1, dtype=torch.bfloat16)

    def forward(self, x, time):
        return F.silu(self.conv(x) + time[:, :, None, None])


init_inputs = [64, 64]
inputs = [
    torch.randn(32, 64, 128, 128, dtype=torch.bfloat16),
    torch.randn(32, 64, dtype=torch.bfloat16),
]
shapes = [((8, 64, 64, 64), (8, 64)), ((1, 64, 32, 32), (1, 64))]
