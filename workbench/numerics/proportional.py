"""Sums and products pass errors on in proportion: what becomes of an operand's ends need not be tried.

Owns which pointwise results do, and by how much of each operand's error: what their ends would show, in far
fewer operations. A recurrence is made of little else. Never adds what a result is rounded; pointwise.py does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from workbench.numerics.tracked import Tracked

_SUMS = frozenset(("add", "sub", "rsub"))


def factors(name: str, args: Sequence[Any], kwargs: object) -> tuple[Tensor | float, ...] | None:
    """For each argument, what its error is multiplied with; None where the ends have to be tried.

    That is so beside infinities and NaN, at edges, and where a value lies between two ends of its own.
    """
    if kwargs or not args or not all(map(_is_plain, args)):
        return None
    if name == "neg":
        return (1.0,)
    if len(args) != 2 or args[0] is args[1]:
        return None
    if name in _SUMS:
        return (1.0, 1.0)
    if name == "mul":
        return _size(args[1]), _size(args[0])
    return None


def passed_on(
    args: Sequence[Any], times: Sequence[Tensor | float], inexact: Sequence[Tracked], none: Tensor
) -> tuple[Tensor, Tensor]:
    """Independent and shared errors of a sum or product, given ``factors``, split as its operands' are.

    ``none``: no error, of the result's shape; what it has none of is this very tensor.
    """
    independent = shared = none
    for operand, factor in zip(args, times, strict=True):
        if not any(operand is one for one in inexact):
            continue
        if operand.value.numel() < none.numel():
            shared = shared + operand.error * factor
            continue
        independent = independent + operand.independent * factor
        if operand.has_shared:
            shared = shared + operand.shared * factor
    return independent, shared


def _is_plain(arg: Any) -> bool:
    if not isinstance(arg, Tracked):
        return isinstance(arg, int | float) and math.isfinite(arg)
    if not arg.value.dtype.is_floating_point:
        return arg.is_exact and arg.step is None
    has_free_end = any(map(math.isinf, arg.span))
    return has_free_end and arg.step is None and arg.is_bounded and arg.is_finite


def _size(arg: Any) -> Tensor | float:
    return arg.value.to(torch.float64).abs() if isinstance(arg, Tracked) else abs(float(arg))
