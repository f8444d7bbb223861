"""A tensor in float64 together with how far an honest float32 computation of it may be off.

Owns the value ``Tracked`` and the arithmetic of errors that every rule shares. Errors come in two
kinds, because they add up differently: *independent* ones (each element's own rounding) add in
quadrature, *shared* ones (one error seen by many elements, such as a row's mean) add linearly.
First-order running error analysis after Higham, "Accuracy and Stability of Numerical Algorithms",
2nd ed., section 3.3, with the probabilistic view of Higham and Mary, SISC 41(5), 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import UNIT, accumulate_unit, is_float

LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895e38}
TINY = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126}
"""Results below this may be flushed to zero, or lose all their digits."""
EXACT_INTEGERS = {"f64": 2.0**53, "f32": 2.0**24, "f16": 2.0**11, "bf16": 2.0**8}
"""Integers up to here are represented exactly, and so is every sum of them that stays below."""


@dataclass(frozen=True, eq=False)
class Tie:
    """Where an index output comes from: any index whose source value is as good is right."""

    index: Tensor
    """The oracle's own choice."""
    source: Tensor
    error: Tensor
    dim: int | None
    """None when the source was flattened first."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the index as the operation made it; later views may have changed it."""
        return tuple(self.index.shape)


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

    @property
    def error(self) -> Tensor:
        """All of the error, elementwise."""
        return self.independent + self.shared

    @property
    def is_exact(self) -> bool:
        """True while nothing has been rounded."""
        return not bool(self.independent.any()) and not bool(self.shared.any())


def exact(value: Tensor, dtype: DType) -> Tracked:
    """Track a tensor that carries no error, such as an input."""
    wide = value.to(torch.float64) if is_float(dtype) else value
    zero = torch.zeros(wide.shape, dtype=torch.float64)
    return Tracked(wide, zero, zero, dtype)


def rounded(value: Tensor, own: Tensor, tracked: tuple[Tensor, Tensor], dtype: DType) -> Tracked:
    """Finish a node: add its own rounding to the (independent, shared) errors it inherited.

    Where the result leaves the dtype's range in the reference's own precision, anything is allowed
    further on: the error becomes infinite.
    """
    independent, shared = tracked
    if not is_float(dtype):
        return Tracked(value, independent, shared, dtype)
    finite = torch.isfinite(value)
    magnitude = value.abs()
    if not bool(finite.all()):
        own, magnitude = torch.where(finite, own, 0.0), torch.where(finite, magnitude, 0.0)
    narrow = UNIT[dtype] if UNIT[dtype] > accumulate_unit(dtype) else 0.0
    if narrow:
        own = own + narrow * magnitude + TINY[dtype]
    overflow = (magnitude + independent + shared) > LARGEST[dtype]
    if bool(overflow.any()):
        shared = torch.where(overflow & finite, torch.inf, shared)
    return Tracked(value, torch.hypot(independent, own), shared, dtype)


def stays_integer(value: Tensor, magnitude: Tensor, dtype: DType) -> bool:
    """True when a sum or product of exact integers is itself exact, whatever the order.

    ``magnitude`` bounds every partial result, such as the sum of absolute values.
    """
    if not is_float(dtype) or not bool(torch.isfinite(value).all()):
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
    if bool(torch.isfinite(difference).all()):
        return difference
    same = (value == moved) | (value.isnan() & moved.isnan())
    difference = torch.where(same, 0.0, difference)
    return torch.where(~torch.isfinite(value) & ~same, torch.inf, difference)
