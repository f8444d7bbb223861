"""SwiGLU's gate: silu(gate) * up, the pointwise heart of a Llama feed-forward block.

Why it is interesting: two reads and one write, nothing else. The only choices are how wide the loads are and
how many are in flight, which makes it the cleanest measurement of memory techniques.

Look for: bytes in flight against what Little's law asks for, and the size where launch cost takes over
(a single token: 1 x 14336).
"""

import torch
from torch.nn import functional as F


def silu_mul(gate, up):
    return F.silu(gate) * up


inputs = [torch.randn(4096, 14336), torch.randn(4096, 14336)]
shapes = [(1, 14336), (37, 1001)]
