"""Full of words that a naive filter takes for cheating: pass, try, except, half, exit, eval, timing.

problem: row_softmax
verdict: passed
"""

import torch
from torch import nn


class ModelNew(nn.Module):
    # One pass; we try to exit early. half of the rows first, no timing, nothing patched: cudaEvent, allclose.
    def forward(self, x):
        try:  # noqa: SIM105
            half = x.shape[0] // 2
        except AttributeError:
            pass
        parts = [torch.softmax(part, dim=1) for part in (x[:half], x[half:])]
        return torch.cat(parts)
