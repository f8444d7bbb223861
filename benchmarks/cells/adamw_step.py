"""One step of AdamW: new weights and both moments."""

import torch


def adamw_step(w, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return w * (1 - 1e-4) - 1e-3 * (m / 0.19) / (torch.sqrt(v / 0.002) + 1e-8), m, v


inputs = [torch.randn(4096, 4096), torch.randn(4096, 4096), torch.randn(4096, 4096), torch.rand(4096, 4096)]
