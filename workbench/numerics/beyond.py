"""Errors of pointwise results that moving each operand to the ends of its error does not show.

Owns which they are: a pole or the top of a wave between the ends, what two errors make together, and numbers
such as 0.9, which are others in float32. Never adds them up; pointwise.py does, beside those of the ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from ctypes import c_float
from typing import Any

import torch
from torch import Tensor

from workbench.numerics.tracked import Tracked, deviation

_POLE_AT_ZERO: Mapping[str, int] = {"div": 1, "true_divide": 1, "reciprocal": 0, "rsqrt": 0, "addcdiv": 2}
"""Results without bound where this argument nears zero. A logarithm's is so shallow that ends show it."""
_TOPS: Mapping[str, float] = {"cos": 0.0, "sin": math.pi / 2}
"""Angles at which a wave is 1. An angle that is off by more than half a turn may have its ends anywhere."""
_TOGETHER = frozenset(("mul", "div", "true_divide"))


def beyond_ends(name: str, args: Sequence[Any], inexact: Sequence[Tracked]) -> Iterator[Tensor]:
    """Errors to add to those of the ends; ``inexact``: the operands whose errors were moved one at a time."""
    position = _pole(name, args)
    divisor = args[position] if position is not None and position < len(args) else None
    if isinstance(divisor, Tracked) and divisor.value.is_floating_point() and not divisor.is_exact:
        below, above = divisor.value - divisor.down, divisor.value + divisor.up
        reaches = (below <= 0) & (above >= 0) & (divisor.error > 0)
        if bool(reaches.any()):
            yield torch.where(reaches, torch.inf, 0.0).to(torch.float64)
    angle = args[0] if name in _TOPS else None
    if isinstance(angle, Tracked) and not angle.is_exact:
        yield _at_a_turn(angle, _TOPS[name])
    if name in _TOGETHER and len(inexact) == 2 and all(isinstance(arg, Tracked) for arg in args[:2]):
        yield _together(name, args[0], args[1])


def _at_a_turn(angle: Tracked, top: float) -> Tensor:
    """How far the wave's tops and bottoms between the ends are from the value; ``top`` is where one is."""
    from_top = angle.value.to(torch.float64) - top
    turns, value = from_top / math.pi, torch.cos(from_top)
    lowest = torch.ceil(turns - angle.down / math.pi)
    highest = torch.floor(turns + angle.up / math.pi)
    one = torch.where(torch.remainder(lowest, 2) == 0, 1.0, -1.0)
    off = torch.where(highest > lowest, 1 + value.abs(), (one - value).abs())
    return torch.where(highest >= lowest, off, 0.0).nan_to_num(0.0)


def _pole(name: str, args: Sequence[Any]) -> int | None:
    if name != "pow":
        return _POLE_AT_ZERO.get(name)
    falls = len(args) > 1 and isinstance(args[1], int | float) and args[1] < 0
    return 0 if falls else None


def _together(name: str, first: Tracked, second: Tracked) -> Tensor:
    """A sum that lost a term over a count that lost one."""
    both = first.error * second.error
    if name != "mul":
        size = second.value.to(torch.float64).abs()
        both = both / (size * (size - second.error)).clamp_min(0)
    return both.nan_to_num(0.0, torch.inf)


def of_constants(value: Tensor, narrow: Tensor | None) -> Iterator[Tensor]:
    """``narrow`` is the result with the numbers that float32 has: off by the same each time they are met, so
    that the errors of a recurrence add up and do not walk."""
    if narrow is not None:
        yield deviation(value, narrow).nan_to_num(0.0, 0.0)


def is_held(arg: Any) -> bool:
    """False for a number such as 0.3, which is another one in float32: -100 times it is not quite -30."""
    return not isinstance(arg, float) or arg == held(arg) or arg != arg


def held(arg: Any) -> Any:
    """What float32 makes of a number."""
    return c_float(arg).value if isinstance(arg, float) else arg
