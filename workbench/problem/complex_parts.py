"""What a complex number is made of, and arithmetic on its parts.

A part that is zero everywhere, as the real one of ``1j * x``, is no tensor at all. Owns how such parts are
added, multiplied and made tensors; what an operation is in parts is complex_rules.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

Half = Tensor | float | None
"""A real or an imaginary part: numbers of a tensor, one number, or zero."""
HALF_DTYPES = {torch.complex128: torch.float64, torch.complex64: torch.float32}
"""By a complex type, that of its parts."""


@dataclass(frozen=True)
class Parts:
    """What stands for a complex tensor, of its shape; at least one part is a tensor."""

    re: Half
    im: Half
    pairs: Tensor | None = field(default=None, kw_only=True)
    """Both beside each other on a last axis, where they lie so already."""

    @property
    def beside(self) -> Tensor:
        """The same, put together where they do not."""
        return torch.stack(self.both, -1) if self.pairs is None else self.pairs

    @property
    def one(self) -> Tensor:
        """A part that is there."""
        found = self.re if isinstance(self.re, Tensor) else self.im
        assert isinstance(found, Tensor)
        return found

    @property
    def shape(self) -> torch.Size:
        return self.one.shape

    @property
    def both(self) -> tuple[Tensor, Tensor]:
        """Both as tensors."""
        return full(self.re, self.one), full(self.im, self.one)


@dataclass(frozen=True)
class Pairs:
    """``view_as_real`` of a complex tensor, put together only where more is asked of it than one part."""

    parts: Parts

    @cached_property
    def tensor(self) -> Tensor:
        """Of one axis more, of size 2."""
        return self.parts.beside


def full(half: Half, like: Tensor) -> Tensor:
    """A part as a tensor."""
    if isinstance(half, Tensor):
        return half
    return torch.full_like(like, half or 0.0)


def of_pairs(pairs: Tensor) -> Parts:
    """The complex numbers of pairs."""
    return Parts(pairs.select(-1, 0), pairs.select(-1, 1), pairs=pairs)


def negated(x: Half) -> Half:
    """``-x``."""
    return None if x is None else -x


def added(x: Half, y: Half) -> Half:
    """``x + y``: the other one where one is zero."""
    if x is None or y is None:
        return y if x is None else x
    return x + y


def subtracted(x: Half, y: Half) -> Half:
    """``x - y``."""
    if x is None or y is None:
        return negated(y) if x is None else x
    return x - y


def multiplied(x: Half, y: Half) -> Half:
    """``x * y``: zero where one is, and no product where one is 1 or -1."""
    if x is None or y is None:
        return None
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        return x * y
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        return x * y
    number, tensor = (y, x) if isinstance(x, Tensor) else (x, y)
    return tensor if number == 1 else -tensor if number == -1 else tensor * number


def of_one(whole: Parts, half: Half, function: Callable[[Any], Any], at_zero: float | None = None) -> Half:
    """A function of one part of ``whole``, which is ``at_zero`` where the part is zero."""
    if half is None:
        return at_zero
    made: Tensor = function(half if isinstance(half, Tensor) else torch.full((), half, dtype=whole.one.dtype))
    return made


def halves(value: Any) -> tuple[Half, Half]:
    """Both parts of a complex tensor or number; of a real one, itself and zero."""
    match value:
        case Parts():
            return value.re, value.im
        case complex():
            return value.real or None, value.imag or None
        case _:
            return value, None
