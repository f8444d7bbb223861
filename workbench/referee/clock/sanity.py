"""Whether two sets of outputs are the same result, roughly: the same computation, not the same rounding.

For baselines, which torch itself computes: catches one that returned other data, not one that rounds badly.
Runs in a worker child; works in chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 1 << 24
LARGEST_RMS = 0.02
"""Relative error, root mean square, that another order of float16 or TF32 products stays far below."""
LARGEST_SHARE = 0.02
"""Share of integers that may differ: ties, in which another order picks another index."""


def unlike(got: Sequence[Tensor], wanted: Sequence[Tensor]) -> str:
    """How the outputs differ, in a few words; empty when they are the same result."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs where there are {len(wanted)}"
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"output {number} is {mine.dtype} {tuple(mine.shape)}"
        if told := _different(mine.reshape(-1), theirs.reshape(-1)):
            return f"output {number} {told}"
    return ""


def _different(got: Tensor, wanted: Tensor) -> str:
    off = size = other = 0.0
    for start in range(0, got.numel(), CHUNK):
        mine, theirs = got[start : start + CHUNK], wanted[start : start + CHUNK]
        if not mine.is_floating_point():
            other += float((mine != theirs).sum())
            continue
        finite = torch.isfinite(theirs)
        same = torch.where(finite, torch.isfinite(mine), (mine == theirs) | (mine.isnan() & theirs.isnan()))
        if not bool(same.all()):
            return "has NaN or inf elsewhere"
        wide = torch.where(finite, theirs, 0.0).to(torch.float32)
        off += float((torch.where(finite, mine, 0.0).to(torch.float32) - wide).square().sum())
        size += float(wide.square().sum())
    if other > LARGEST_SHARE * max(got.numel(), 1):
        return f"differs in {other:.0f} of {got.numel()} elements"
    if off > LARGEST_RMS**2 * size:
        return f"is off by {(off / size) ** 0.5 if size else float('inf'):.2g} (relative, root mean square)"
    return ""
