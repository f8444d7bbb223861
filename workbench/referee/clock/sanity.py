"""Whether two sets of outputs are the same result, roughly: the same computation, not the same rounding.

For baselines, which torch itself computes: catches one that returned other data, not one that rounds badly.
Runs in a worker child; never holds two large outputs at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PART = 1 << 22
"""Elements of an output that are kept for a comparison; larger outputs are thinned out."""
LARGEST_RMS = 0.02
"""Relative error, root mean square, that another order of float16 or TF32 products stays far below."""
AS_FAR = 1.5
"""As far from the kernel as the reference is, or so much further."""
LARGEST_SHARE = 0.02
"""Share of integers that may differ: ties, in which another order picks another index."""


def parts_of(outputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Small copies: every n-th element of a large output, n odd, so that no column is met alone."""
    return tuple(_thinned(output).clone() for output in outputs)


def _thinned(output: Tensor) -> Tensor:
    step = -(-output.numel() // PART)
    return output if step <= 1 else output.reshape(-1)[:: step | 1]


def unlike(got: Sequence[Tensor], wanted: Sequence[Tensor], rms: float = LARGEST_RMS) -> str:
    """How the outputs differ, in a few words; empty when they are the same result.

    ``rms`` is the largest relative error, root mean square, of an output that still is the same.
    """
    if len(got) != len(wanted):
        return f"{len(got)} outputs where there are {len(wanted)}"
    for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"output {number} is {mine.dtype} {tuple(mine.shape)}"
        if told := _different(mine.reshape(-1), theirs.reshape(-1), rms):
            return f"output {number} {told}"
    return ""


def allowed_beside(kernel: Sequence[Tensor], reference: Sequence[Tensor]) -> float:
    """Relative error, root mean square, that torch's other versions of a reference may have.

    Where steps in 16 bits carry the reference itself far from a kernel that was found right (exponents in
    the hundreds, as of scores with ALiBi's slopes), a compiled one rounds other steps, as far off as it.
    """
    apart = (_apart(mine, theirs) for mine, theirs in zip(kernel, reference, strict=True))
    return max([LARGEST_RMS, *(AS_FAR * off for off in apart)])


def _apart(got: Tensor, wanted: Tensor) -> float:
    """Relative error, root mean square, of the numbers of two outputs; 0 where that says nothing."""
    if got.shape != wanted.shape or not got.is_floating_point():
        return 0.0
    both = torch.isfinite(got) & torch.isfinite(wanted)
    wide = torch.where(both, wanted, 0.0).to(torch.float64)
    off = float((torch.where(both, got, 0.0).to(torch.float64) - wide).square().sum())
    size = float(wide.square().sum())
    return (off / size) ** 0.5 if size else 0.0


def _different(got: Tensor, wanted: Tensor, rms: float) -> str:
    if not got.is_floating_point():
        other = int((got != wanted).sum())
        return f"differs in {other} of {got.numel()}" if other > LARGEST_SHARE * got.numel() else ""
    finite = torch.isfinite(wanted)
    same = torch.where(finite, torch.isfinite(got), (got == wanted) | (got.isnan() & wanted.isnan()))
    if not bool(same.all()):
        return "has NaN or inf elsewhere"
    wide = torch.where(finite, wanted, 0.0).to(torch.float64)
    off = float((torch.where(finite, got, 0.0).to(torch.float64) - wide).square().sum())
    size = float(wide.square().sum())
    if off > rms**2 * size:
        return f"is off by {(off / size) ** 0.5 if size else float('inf'):.2g} (relative, root mean square)"
    return ""
