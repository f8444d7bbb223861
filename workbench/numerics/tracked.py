"""A tensor in float64 together with how far an honest float32 computation of it may be off.

Owns the value ``Tracked`` and the arithmetic of errors that every rule shares. Errors come in two
kinds, because they add up differently: *independent* ones (each element's own rounding) add in
quadrature, *shared* ones (one error seen by many elements, such as a row's mean) add linearly.
First-order running error analysis after Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., section 3.3, with the probabilistic view of Higham and Mary, SISC 41(5), 2019.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import TORCH, UNIT, accumulate_unit, is_float

LARGEST = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
}
TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126}
"""Results below this may be flushed to zero, or lose all their digits."""
EXACT_INTEGERS = {"f64": 2.0**53, "f32": 2.0**24, "f16": 2.0**11, "bf16": 2.0**8}
"""Integers up to here are represented exactly, and so is every sum of them that stays below."""


Span = tuple[float, float]
ANYWHERE: Span = (-math.inf, math.inf)


@dataclass(frozen=True, eq=False)
class Tie:
    """Where an index output comes from: any index whose source value is as good is right."""

    index: Tensor
    """The oracle's own choice; of a largest or smallest one, the element that is best at its worst."""
    source: Tensor
    error: Tensor
    dim: int | None
    """None when the source was flattened first."""
    unasked: Tensor | None = None
    """Of the index's shape: True where any place is as good as the right one."""
    first: bool = False
    """True where of several that are equal for sure only the first is right: of whole numbers, as of masks,
    people ask where the first is that is set, and torch says that it is the one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the index as the operation made it; later views may have changed it."""
        return tuple(self.index.shape)


@dataclass(frozen=True, eq=False)
class Step:
    """Of what was computed from a rounded, compared or truncated value: how far it may be off to either side.

    A value that lies near an edge may fall to the other side of it, which moves what comes of it one way and
    not the other. All are float64 and of the value's shape; ``down`` and ``up`` are at most its error.
    """

    down: Tensor
    up: Tensor
    distance: Tensor
    """From the value before to the edge that it may fall over; inf where it may not."""

    def unsure(self, where: Tensor) -> Step:
        """The same, but for elements that may be anything."""
        down, up = (torch.where(where, torch.inf, side) for side in (self.down, self.up))
        return Step(down, up, self.distance)


@dataclass(frozen=True, eq=False)
class Tracked:
    """``value`` is float64 for float dtypes and exact otherwise; the errors are float64, >= 0.

    ``dtype`` is the dtype the reference gives the node, which decides how its results round.
    """

    value: Tensor
    independent: Tensor
    shared: Tensor
    dtype: DType
    tie: Tie | None = None
    step: Step | None = None
    """None where both sides are alike."""
    span: Span = ANYWHERE
    """The least and the most that any honest element can be, whatever its error (spans.py)."""

    @property
    def down(self) -> Tensor:
        """How far an honest value may lie below this one."""
        return self.error if self.step is None else self.step.down

    @property
    def up(self) -> Tensor:
        """How far above."""
        return self.error if self.step is None else self.step.up

    @property
    def error(self) -> Tensor:
        """All of the error, elementwise."""
        return self.independent + self.shared if self.has_shared else self.independent

    @cached_property
    def is_exact(self) -> bool:
        """True while nothing has been rounded."""
        return not any(self._kinds[:2])

    @property
    def has_shared(self) -> bool:
        """True where some of the error is shared."""
        return self._kinds[1]

    @property
    def is_bounded(self) -> bool:
        """True where no error is infinite."""
        return not self._kinds[2]

    @cached_property
    def is_finite(self) -> bool:
        """True where every element is a finite number."""
        return all_finite(self.value)

    def know(self, *, independent: bool, shared: bool, infinite: bool) -> None:
        """Spares asking for what is known already: whether there is any error of each kind.

        ``shared`` may be true of zeros where there are independent ones as well.
        """
        self.__dict__["_kinds"] = (independent, shared, infinite)

    @cached_property
    def _kinds(self) -> tuple[bool, bool, bool]:
        """Whether any error is independent, shared, infinite: on a GPU a question to wait for, asked once."""
        error = self.independent + self.shared
        seen = (self.independent.any(), self.shared.any(), error.isinf().any())
        independent, shared, infinite = torch.stack(seen).tolist()
        return independent, shared, infinite


def edge_of(x: Tracked) -> Tensor:
    """How far from an edge the elements were that may have fallen over one; inf for the others."""
    return (
        torch.full(x.value.shape, torch.inf, dtype=torch.float64, device=x.value.device)
        if x.step is None
        else x.step.distance
    )


def all_finite(values: Tensor) -> bool:
    """As ``torch.isfinite(values).all()``, in a sixth of the time: a NaN is the least and the most of all."""
    if not values.numel():
        return True
    least, most = torch.aminmax(values)
    return bool((least > -torch.inf) & (most < torch.inf))


def nothing(like: Tensor) -> Tensor:
    """Errors of a tensor without any: one zero in memory, for as many elements."""
    return torch.zeros((), dtype=torch.float64, device=like.device).expand(like.shape)


def exact(value: Tensor, dtype: DType) -> Tracked:
    """Track a tensor that carries no error, such as an input."""
    wide = value.to(torch.float64) if is_float(dtype) else value
    zero = nothing(wide)
    made = Tracked(wide, zero, zero, dtype)
    made.know(independent=False, shared=False, infinite=False)
    return made


@dataclass(frozen=True, eq=False)
class Size:
    """How large a float result is. On a GPU numbers are waited for, and these two are asked for together."""

    magnitude: Tensor
    most: float
    """That any element may be with its errors; NaN where one is."""
    least: float
    """Magnitude of any; NaN where one is."""


def size_of(value: Tensor, tracked: tuple[Tensor, Tensor]) -> Size:
    """Of a result with its (independent, shared) errors."""
    magnitude = value.abs()
    if not value.numel():
        return Size(magnitude, 0.0, torch.inf)
    reach = magnitude + tracked[0] + tracked[1]
    most, least = torch.stack((reach.max(), magnitude.min())).tolist()
    return Size(magnitude, most, least)


def rounded(
    value: Tensor,
    own: Tensor | None,
    tracked: tuple[Tensor, Tensor],
    dtype: DType,
    *,
    picks: bool = False,
    span: Span = ANYWHERE,
    size: Size | None = None,
) -> Tracked:
    """Finish a node: add its own rounding to the (independent, shared) errors it inherited.

    Where the result leaves the dtype's range in the reference's own precision, anything is allowed
    further on: the error becomes infinite. ``own``: None where it is exact. What the dtype can hold is not
    rounded again: a result that only ``picks`` (a whole number, one of its operands) stays as it is, and one
    that is off is off at most twice.
    """
    independent, shared = tracked
    if not is_float(dtype):
        return Tracked(value, independent, shared, dtype)
    size = size or size_of(value, tracked)
    is_ordinary = size.most <= LARGEST[dtype]  # False where there is a NaN
    finite = None if is_ordinary or all_finite(value) else torch.isfinite(value)
    if own is not None and finite is not None:
        own = torch.where(finite, own, 0.0)
    stored: Tensor | None = None
    if _is_narrow(dtype):
        again = narrowing(value, dtype, off=independent + shared, picks=picks)
        off = independent + shared if own is None else own + independent + shared
        stored = torch.where(holds(value, dtype), torch.minimum(again, off), again)
    if not is_ordinary:
        magnitude = size.magnitude if finite is None else torch.where(finite, size.magnitude, 0.0)
        overflow = magnitude + independent + shared > LARGEST[dtype]
        shared = torch.where(overflow if finite is None else overflow & finite, torch.inf, shared)
    if own is not None:
        independent = one_after_the_other(independent, own)
    if stored is not None:
        independent = independent + stored
    made = Tracked(value, independent, shared, dtype, span=span)
    if is_ordinary or finite is None:
        made.__dict__["is_finite"] = True
    return made


def one_after_the_other(before: Tensor, own: Tensor) -> Tensor:
    """Errors of roundings in a row: in quadrature, and never less than half of each added up.

    Quadrature takes them for independent. Those of a recurrence near its resting point are not: what hardly
    changes is rounded alike in each step. Half of what is allowed for a sum or product is all that one can
    err by (``pointwise``), so that no chain of them can err by more. Storing in 16 bits is allowed as it is,
    and adds up.
    """
    return torch.maximum(torch.hypot(before, own), before + 0.5 * own)


def narrowing(value: Tensor, dtype: DType, *, off: Tensor | float = 0.0, picks: bool = False) -> Tensor:
    """What storing a result in a narrow dtype may take from it, where the result may be ``off`` already: one
    that fell over an edge is rounded where it fell to, which may be a larger number."""
    if not is_float(dtype) or not _is_narrow(dtype):
        return torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    magnitude = value.abs().nan_to_num(0.0, 0.0)
    again = UNIT[dtype] * (magnitude + off) + TINY[dtype]
    return torch.where(holds(value, dtype), 0.0, again) if picks else again


def _is_narrow(dtype: DType) -> bool:
    return UNIT[dtype] > accumulate_unit(dtype)


def holds(value: Tensor, dtype: DType) -> Tensor:
    """True where the dtype has this very number."""
    return value == value.to(TORCH[dtype]).to(value.dtype)


def stays_integer(value: Tensor, magnitude: Tensor, dtype: DType) -> bool:
    """True when a sum or product of exact integers is itself exact, whatever the order.

    ``magnitude`` bounds every partial result, such as the sum of absolute values.
    """
    if not is_float(dtype) or not all_finite(value):
        return False
    whole = bool((value == value.round()).all())
    return whole and bool((magnitude <= EXACT_INTEGERS[dtype]).all())


def deviation(value: Tensor, moved: Tensor) -> Tensor:
    """How far ``moved`` is from ``value``: 0 where equal or both NaN, inf where only one is finite.

    A NaN beside a finite value comes back as NaN, for the caller to judge.
    """
    if value.dtype == torch.bool:
        return (value != moved).to(torch.float64)
    difference = (moved.to(torch.float64) - value.to(torch.float64)).abs()
    if all_finite(difference):
        return difference
    same = (value == moved) | (value.isnan() & moved.isnan())
    difference = torch.where(same, 0.0, difference)
    return torch.where(~torch.isfinite(value) & ~same, torch.inf, difference)
