"""How matrix products, convolutions and linear resampling round and pass errors on.

A contraction of K products rounds like a sum of K terms (see reductions.py). Errors of its operands
are shared from there on, because every operand element feeds several results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from workbench.model import Contract, DType
from workbench.numerics.dtypes import U32, accumulate_unit
from workbench.numerics.reductions import SAFETY, sum_rounding
from workbench.numerics.tracked import Tracked, nothing, rounded, stays_integer

Bilinear = Callable[[Tensor, Tensor], Tensor]
TF32_UNIT = 2.0**-11


def contraction(
    apply: Bilinear, a: Tracked, b: Tracked, count: int, dtype: DType, contract: Contract = "ieee-fp32"
) -> Tracked:
    """A bilinear operation such as ``mm`` whose every result sums ``count`` products of a and b."""
    left, right = a.value.to(torch.float64), b.value.to(torch.float64)
    value = apply(left, right)
    squares = apply(left.square(), right.square()).clamp_min(0)
    if _is_exact(apply, a, b, value, dtype):
        own = nothing(value)
    else:
        own = sum_rounding(value, squares, max(count, 2), dtype)
    if contract == "tf32" and dtype != "f64":
        own = own + SAFETY * TF32_UNIT * squares.sqrt().nan_to_num(0.0, torch.inf)
    return rounded(value, own, (nothing(value), _inherited(apply, a, b, value)), dtype)


def _is_exact(apply: Bilinear, a: Tracked, b: Tracked, value: Tensor, dtype: DType) -> bool:
    """True for small integers, whose products and sums are exact in any order."""
    if not (a.is_exact and b.is_exact):
        return False
    left, right = a.value.to(torch.float64).abs(), b.value.to(torch.float64).abs()
    if not (stays_integer(left, left, "f32") and stays_integer(right, right, "f32")):
        return False
    return stays_integer(value, apply(left, right), "f64" if dtype == "f64" else "f32")


def _inherited(apply: Bilinear, a: Tracked, b: Tracked, like: Tensor) -> Tensor:
    """What the errors of both operands make of a result ``like`` this one."""
    if a.is_exact and b.is_exact:
        return nothing(like)
    inherited = torch.zeros((), dtype=torch.float64, device=like.device)
    if not a.is_exact:
        right = _size(b.value)
        quadrature = apply(a.independent.square(), right.square()).clamp_min(0).sqrt()
        inherited = inherited + SAFETY * quadrature + apply(a.shared, right)
    if not b.is_exact:
        left = _size(a.value)
        quadrature = apply(left.square(), b.independent.square()).clamp_min(0).sqrt()
        inherited = inherited + SAFETY * quadrature + apply(left, b.shared)
    # An infinite error times a zero operand is NaN; it must not silence the comparison.
    inherited = inherited.nan_to_num(torch.inf, torch.inf)
    for one, other, turned in ((a, b, False), (b, a, True)):
        endless = other.value.isinf()
        if not one.is_exact and bool(endless.any()):
            sides = _may_be_zero(one).double(), endless.double()
            met = apply(*(sides[::-1] if turned else sides)) > 0
            inherited = torch.where(met, torch.inf, inherited)
    return inherited


def _may_be_zero(x: Tracked) -> Tensor:
    """Where a value may have either sign: times an infinity it is NaN, or an infinity of either sign."""
    return (x.value.abs() <= x.error) & (x.error > 0)


def _size(value: Tensor) -> Tensor:
    return value.to(torch.float64).nan_to_num(0.0, 0.0, 0.0).abs()


def plus(x: Tracked, y: Tracked, dtype: DType, count: int) -> Tracked:
    """Sum of a contraction over ``count`` products and a bias, which a kernel may begin its sum with.

    Every partial sum is then as large as the bias, and rounds like it.
    """
    value = x.value + y.value
    walk = SAFETY * accumulate_unit(dtype) * math.sqrt(max(count, 1)) * y.value.to(torch.float64).abs()
    own = (2 * U32 * value.abs() + walk).nan_to_num(0.0, torch.inf)
    if x.is_exact and y.is_exact and stays_integer(value, x.value.abs() + y.value.abs(), dtype):
        own = torch.zeros_like(value)
    shared = x.shared + y.error.expand(value.shape)
    return rounded(value, own, (x.independent.expand(value.shape), shared), dtype)


PRODUCTS = frozenset(("mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "linear", "convolution"))
"""Operations whose results are sums of products of two tensors, with at most a bias besides."""


def convolution(
    op: Any, x: Tracked, weight: Tracked, rest: list[Any], dtype: DType, contract: Contract = "ieee-fp32"
) -> Tracked:
    """``aten.convolution``: ``rest`` is (stride, padding, dilation, transposed, output_padding, groups)."""

    def apply(values: Tensor, weights: Tensor) -> Tensor:
        result: Tensor = op(values, weights, None, *rest)
        return result

    made = contraction(apply, x, weight, products_of(weight, rest), dtype, contract)
    open_to_all = _nothing_times_infinite(op, x.value, weight.value, rest)
    if open_to_all is None:
        return made
    return replace(made, shared=torch.where(open_to_all, torch.inf, made.shared))


def _nothing_times_infinite(op: Any, x: Tensor, weight: Tensor, rest: list[Any]) -> Tensor | None:
    """Where padding meets a weight that is not finite; None where it does not.

    Zero times infinity is NaN, if it is multiplied at all: torch's own kernels do or leave it out, by type
    and device, so that both are right.
    """
    stride, padding, dilation, transposed, _, groups = rest
    wild = ~torch.isfinite(weight)
    if transposed or not any(padding) or not bool(wild.any()):
        return None
    sides = [side for size in reversed(list(padding)) for side in (size, size)]
    if len(padding) == 1:  # one number for all axes
        sides = sides * (x.dim() - 2)
    outside = torch.nn.functional.pad(torch.zeros_like(x, dtype=torch.float64), sides, value=1.0)
    nothing = [0 for _ in padding]
    met: Tensor = op(outside, wild.to(torch.float64), None, stride, nothing, dilation, False, nothing, groups)
    return met > 0.5


def summed_products(summed: Tracked, tame: Tensor) -> Tracked:
    """A sum of matrix products, or of what is linear in them; ``tame`` is the sum without infinities.

    Infinities of both signs make NaN where they meet, and so does one that meets zero. Who adds up the
    factors first, ``A @ B.sum(1)`` for ``(A @ B).sum(1)``, multiplies an infinity with one number and may
    keep it: right for all numbers, so that nothing is asked there. A NaN that was given has to come through.
    """
    met = summed.value.isnan() & ~tame.isnan()
    return replace(summed, shared=torch.where(met, torch.inf, summed.shared))


def products_of(weight: Tracked, rest: list[Any]) -> int:
    """Products that one result of a convolution sums; ``rest`` as above."""
    transposed, groups = bool(rest[3]), int(rest[5])
    channels = weight.value.shape[0] // groups if transposed else weight.value.shape[1]
    return channels * math.prod(weight.value.shape[2:])


def resampling(op: Callable[[Tensor], Tensor], x: Tracked, count: int, dtype: DType) -> Tracked:
    """A linear map with non-negative weights that sum to one: average pooling, interpolation."""
    value = op(x.value.to(torch.float64))
    # Weights w with sum 1: the terms' squares, sum (w x)^2, are at most the mean of x^2.
    own = sum_rounding(value, op(x.value.to(torch.float64).square()), max(count, 2), dtype)
    independent = op(x.independent)
    return rounded(value, own, (torch.zeros_like(value), independent + op(x.shared)), dtype)
