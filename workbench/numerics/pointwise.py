"""How pointwise operations round and pass errors on.

Owns the table of allowances, in ulps of the result, for each operation's own rounding. The figures
cover the CUDA intrinsics (CUDA C++ Programming Guide, appendix "Mathematical Functions": __expf has
2 + 1.16 |x| ulp, __logf an absolute error of 2^-21.4, __fdividef 2 ulp) and the usual compositions
(tanh and sigmoid from exp), and no lower precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.beyond import beyond_ends, held, is_held, of_constants
from workbench.numerics.dtypes import UNIT, accumulate_unit, is_float
from workbench.numerics.proportional import factors, passed_on
from workbench.numerics.spans import span_of, without_poles
from workbench.numerics.steps import STEPS, may_be_equal, nearest_edge, sides_of, within
from workbench.numerics.tracked import (
    ANYWHERE,
    LARGEST,
    TINY,
    Size,
    Tracked,
    deviation,
    narrowing,
    nothing,
    rounded,
    size_of,
    stays_integer,
)


@dataclass(frozen=True)
class Rounding:
    """Own error of one operation, in units of u (half an ulp of 1)."""

    relative: float = 0.0
    """Times the result."""
    absolute: float = 0.0
    argument: float = 0.0
    """Times the argument times the result: what a rounded product does inside an exponential."""


_NONE = Rounding()
_ARITHMETIC = Rounding(relative=2)
_DEFAULT = Rounding(relative=12, absolute=4)
POINTWISE: Mapping[str, Rounding] = {
    **dict.fromkeys(("add", "sub", "rsub", "mul", "square"), _ARITHMETIC),
    **dict.fromkeys(("addcmul", "lerp"), Rounding(relative=4)),
    **dict.fromkeys(("div", "reciprocal", "sqrt", "addcdiv", "true_divide"), Rounding(relative=5)),
    "rsqrt": Rounding(relative=6),
    "exp": Rounding(relative=6, argument=3),
    "exp2": Rounding(relative=6, argument=3),
    "expm1": Rounding(relative=8),
    **dict.fromkeys(("log", "log2", "log10"), Rounding(relative=6, absolute=8)),
    "log1p": Rounding(relative=8),
    **dict.fromkeys(("logaddexp", "logaddexp2"), Rounding(relative=8, absolute=8)),
    **dict.fromkeys(("sin", "cos"), Rounding(relative=6, absolute=8)),
    "tan": Rounding(relative=16, absolute=8),
    "tanh": Rounding(relative=8, absolute=4),
    "erf": Rounding(relative=8, absolute=4),
    "erfc": Rounding(relative=16, argument=3),
    "sigmoid": Rounding(relative=10, argument=3),
    "silu": Rounding(relative=12, argument=3),
    "pow": Rounding(relative=12, argument=3),
    "gelu": Rounding(relative=12, absolute=24),  # x (1 + erf) loses its digits where erf nears -1
    **dict.fromkeys(
        ("mish", "softplus", "elu", "selu", "celu", "hypot", "atan2", "fmod", "remainder"), _DEFAULT
    ),
    **dict.fromkeys(
        (
            "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "erfinv", "lgamma", "digamma",
            "special_erfcx", "special_ndtri",
        ),
        _DEFAULT,
    ),
    **dict.fromkeys(
        (
            "neg", "abs", "relu", "sign", "floor", "ceil", "round", "trunc", "maximum", "minimum", "clamp",
            "clamp_min", "clamp_max", "where", "eq", "ne", "lt", "le", "gt", "ge", "logical_not",
            "logical_and", "logical_or", "logical_xor", "bitwise_not", "bitwise_and", "bitwise_or",
            "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__",
            "isnan", "isinf", "isfinite",
            "masked_fill", "leaky_relu", "hardtanh", "floor_divide", "fmax", "fmin", "copysign", "frac",
            "threshold", "nan_to_num", "signbit",
        ),
        _NONE,
    ),
}  # fmt: skip
_PICKS = frozenset(
    (
        "neg", "abs", "relu", "sign", "floor", "ceil", "round", "trunc", "maximum", "minimum", "clamp",
        "clamp_min", "clamp_max", "where", "masked_fill", "hardtanh", "fmax", "fmin", "copysign", "threshold",
        "nan_to_num", "floor_divide",
    )
)  # fmt: skip
"""Results that are whole numbers or one of the operands: where a dtype can hold them, it does not round."""
_NO_FURTHER = frozenset(("maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2"))
"""The larger, the smaller, the logarithm of a sum of powers: they move by no more than either operand does,
not by what both do together."""
_INTEGER_KEEPING = frozenset(("add", "sub", "rsub", "mul", "square"))
_ZERO_KEEPING = frozenset(("add", "sub", "rsub", "mul", "square", "div", "true_divide", "sqrt", "pow"))
"""Where these give zero for operands that carry no error, they give it in every precision."""


def pointwise(
    name: str, op: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], dtype: DType
) -> Tracked:
    """Apply a pointwise operation to tracked tensors and scalars.

    ``name`` is the bare name (``exp``), ``dtype`` the reference's dtype of the result. Errors of the
    arguments are passed on by moving each argument by its error, both ways, and looking at the result.
    Where one of them may fall over an edge, all are moved together as well: an element that falls to the
    other side of ``x * (x > 0)`` has there the error that took it across.
    """
    operands = [a for a in args if isinstance(a, Tracked)] + [
        v for v in kwargs.values() if isinstance(v, Tracked)
    ]
    widen = is_float(dtype)

    def run(moved: Mapping[int, Tensor], *, narrow: bool = False) -> Tensor:
        def plain(arg: Any) -> Any:
            if not isinstance(arg, Tracked):
                return held(arg) if narrow else arg
            chosen = moved.get(id(arg), arg.value)
            wide = widen and chosen.dtype != torch.bool
            return chosen.to(torch.float64) if wide else chosen

        result: Tensor = op(*[plain(a) for a in args], **{k: plain(v) for k, v in kwargs.items()})
        return result.to(torch.float64) if widen else result

    value = run({})
    inexact = [
        operand
        for position, operand in enumerate(operands)
        if not operand.is_exact and not any(operand is earlier for earlier in operands[:position])
    ]
    stepped = bool(inexact) and (name in STEPS or any(operand.step for operand in inexact))
    none = below = above = nothing(value)
    times = factors(name, args, kwargs) if widen and inexact else None
    if times is not None:
        independent, shared = passed_on(args, times, inexact, none)
    else:
        independent, shared, below, above = _tried(run, inexact, value, stepped=stepped)
    if name in _NO_FURTHER and len(inexact) > 1:
        independent, shared = _no_more_than_either(independent, shared, [one.error for one in inexact])
        below, above = (
            torch.minimum(side, _largest([getattr(one, way) for one in inexact]))
            for side, way in ((below, "down"), (above, "up"))
        )
    given = all(map(is_held, (*args, *kwargs.values())))
    off = None if given or dtype == "f64" or not widen else run({}, narrow=True)
    # The corners show what two errors make together.
    beyond = (*beyond_ends(name, args, [] if stepped else inexact), *may_be_equal(name, args))
    for also in (*beyond, *of_constants(value, off)):
        shared, below, above = shared + also, below + also, above + also
    picks = name in _PICKS
    own: Tensor | None = None
    if not widen:
        made = Tracked(value, independent, shared, dtype)
    else:
        size = size_of(value, (independent, shared))
        own = _own_rounding(name, value, size, operands, dtype, given=given)
        span = span_of(name, op, args, kwargs, partial(_most_off, name, dtype))
        made = rounded(value, own, (independent, shared), dtype, picks=picks, span=span, size=size)
        if (
            own is not None
            and 0 < size.most <= LARGEST[dtype]
            and (name not in _ZERO_KEEPING or size.least > 0)
        ):
            made.know(independent=True, shared=shared is not none, infinite=False)
    if not stepped:
        return made
    edge = nearest_edge(name, args, inexact, (below > 0) | (above > 0))
    stored = narrowing(value, dtype, off=torch.maximum(below, above).nan_to_num(0.0, 0.0), picks=picks)
    own = stored if own is None else own + stored
    return replace(made, step=within(below + own, above + own, edge, made))


def _no_more_than_either(independent: Tensor, shared: Tensor, errors: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Both kinds of error, with a sum that is no larger than the largest of some errors."""
    total, most = independent + shared, _largest(errors)
    part = torch.where(total > most, most / total, 1.0).nan_to_num(1.0)
    return independent * part, shared * part


def _largest(errors: list[Tensor]) -> Tensor:
    return reduce(torch.maximum, errors)


def _tried(
    run: Callable[[Mapping[int, Tensor]], Tensor], inexact: list[Tracked], value: Tensor, *, stepped: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What both ends of every inexact operand make of the result: its independent and shared errors and,
    where it is ``stepped``, how far it may lie below and above."""
    independent = shared = below = above = nothing(value)
    ends = {id(one): (_moved(one, one.up, 1.0), _moved(one, one.down, -1.0)) for one in inexact}
    numbers = _numbers_for(inexact)
    for operand in inexact:
        beside = {key: one for key, one in numbers.items() if key != id(operand)}
        moved = [
            without_poles(run({**beside, id(operand): end}), value, end, operand.span)
            for end in ends[id(operand)]
        ]
        part, common = _passed_on(operand, value, moved)
        independent, shared = independent + part, shared + common
        if stepped:
            down, up = sides_of(value, moved)
            below, above = below + down, above + up
    if stepped and len(inexact) > 1:
        corners = [run(dict(zip(ends, chosen, strict=True))) for chosen in product(*ends.values())]
        down, up = sides_of(value, corners)
        below, above = torch.maximum(below, down), torch.maximum(above, up)
        shared = torch.maximum(shared, torch.maximum(down, up))
    return independent, shared, below, above


def _passed_on(operand: Tracked, value: Tensor, moved: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Error of the result from one operand's error, split as the operand's own is split.

    ``moved`` is the result where the operand lies as far up as it may, and as far down.
    """
    error = operand.error
    total = _furthest(value, moved)
    if value.dtype != torch.bool and not operand.is_bounded:
        # What may be anything says by its ends whether it matters at all.
        total = torch.where(_may_be_anything(operand).expand(value.shape) & (total > 0), torch.inf, total)
    if operand.value.numel() < value.numel():  # one element feeds many: its error is shared from here on
        return nothing(total), total
    if not operand.has_shared:
        return total, nothing(total)
    share = torch.where(torch.isfinite(error), operand.independent / error.clamp_min(1e-300), 0.0)
    share = share.expand(value.shape)
    independent = torch.where(share > 0, total * share, 0.0)
    return independent, torch.where(share < 1, total * (1 - share), 0.0)


def _furthest(value: Tensor, moved: list[Tensor]) -> Tensor:
    """How far the further of two results lies from ``value``; of one that leaves the domain, the other."""
    if value.dtype != torch.bool:
        wide = value.to(torch.float64)
        total = torch.maximum(*((one.to(torch.float64) - wide).abs() for one in moved))
        if not total.numel() or float(total.max()) < torch.inf:
            return total
    up, down = (deviation(value, one) for one in moved)
    total = torch.maximum(up, down)
    if bool(total.isnan().any()):  # one side may leave the domain (a square root near 0), not both
        lost = up.isnan() & down.isnan()
        total = torch.maximum(up.nan_to_num(0.0, torch.inf), down.nan_to_num(0.0, torch.inf))
        total = torch.where(lost, torch.inf, total)
    return total


def _numbers_for(operands: list[Tracked]) -> dict[int, Tensor]:
    """Of operands with a NaN that might as well be a number: one with a number there. Beside another such NaN
    an operand would seem not to matter, wherever it lies."""
    found = {}
    for one in operands:
        if one.is_bounded:
            continue
        anything = one.error.isinf() & one.value.isnan()
        if bool(anything.any()):
            found[id(one)] = torch.where(anything, 1.0, one.value)
    return found


def _may_be_anything(operand: Tracked) -> Tensor:
    """A whole number, and an infinity or a NaN that might as well be a number: an infinite element that is
    read with a weight of next to nothing, a product of one with a zero that rounding made."""
    unsure = operand.error.isinf()
    return unsure & ~torch.isfinite(operand.value) if operand.value.dtype.is_floating_point else unsure


def _moved(operand: Tracked, error: Tensor, sign: float) -> Tensor:
    value = operand.value
    if value.dtype == torch.bool:
        return torch.where(error > 0, ~value, value)
    if not value.dtype.is_floating_point:
        ends = torch.iinfo(value.dtype)
        far = torch.tensor(ends.max if sign > 0 else ends.min, dtype=value.dtype, device=value.device)
        near = value.to(torch.float64) + sign * torch.where(error.isinf(), 0.0, error)
        return torch.where(error.isinf(), far, near.round().to(value.dtype))
    moved = value + sign * error
    if not operand.is_bounded:
        moved = torch.where(error.isinf() & ~torch.isfinite(value), sign * LARGEST["f32"], moved)
    return moved if operand.span == ANYWHERE else moved.clamp(*operand.span)


def _most_off(name: str, dtype: DType, size: float) -> float:
    """How far a result of a size may be rounded, and stored in ``dtype``."""
    rounding = POINTWISE.get(name, _DEFAULT)
    own = accumulate_unit(dtype) * (rounding.relative * abs(size) + rounding.absolute)
    return own + UNIT[dtype] * (abs(size) + own)


def _own_rounding(
    name: str, value: Tensor, size: Size, operands: list[Tracked], dtype: DType, *, given: bool
) -> Tensor | None:
    """Of a float result, None where it is exact; ``given``: the numbers among the arguments are the same in
    every precision."""
    rounding, magnitude = POINTWISE.get(name, _DEFAULT), size.magnitude
    if rounding == _NONE:
        return None
    if (
        name in _INTEGER_KEEPING
        and given
        and all(o.is_exact for o in operands)
        and stays_integer(value, magnitude, dtype)
    ):
        return None
    unit = accumulate_unit(dtype)
    if name == "mul" and any(_only_selects(operand) for operand in operands):
        return None
    own = magnitude * (unit * rounding.relative) + (unit * rounding.absolute + TINY[dtype])
    if rounding.argument:
        own = own + unit * rounding.argument * magnitude * _exponent(name, value, operands)
    if name in _ZERO_KEEPING and not size.least > 0:
        own = _without(own, value, operands)
    if name in ("add", "sub") and len(operands) == 2 and not size.most <= LARGEST[dtype] / 4:
        own = torch.where(magnitude > LARGEST[dtype] / 4, torch.minimum(own, 4 * _smaller(operands)), own)
    return own if size.most < torch.inf and not rounding.argument else own.nan_to_num(0.0, torch.inf)


def _without(own: Tensor, value: Tensor, operands: list[Tracked]) -> Tensor:
    """No rounding of zeros that are made of what has no error: a difference of equals, a product with zero.

    Such a zero is on no edge's other side: an atom's distance from itself is not more than nothing.
    """
    zero = value == 0
    for operand in operands:
        zero = zero & (operand.error == 0)
    return torch.where(zero, 0.0, own)


def _smaller(operands: list[Tracked]) -> Tensor:
    """Of two summands the lesser magnitude: a sum is not rounded further off than its other summand is.

    A score that is masked by adding the lowest number stays there, and does not overflow. (Four times it, for
    those that are scaled as they are added.)
    """
    one, other = (operand.value.to(torch.float64).abs() for operand in operands)
    return torch.minimum(one, other).nan_to_num(torch.inf, torch.inf)


def _only_selects(operand: Tracked) -> bool:
    """True for a mask of zeros and ones, whose products are not rounded."""
    value = operand.value
    return operand.is_exact and bool(((value == 0) | (value == 1)).all())


def _exponent(name: str, value: Tensor, operands: list[Tracked]) -> Tensor:
    """The argument whose rounding an exponential inside the operation amplifies."""
    if name == "pow":  # x ** y = exp(y log x), and y log x is the logarithm of the result
        return value.abs().clamp(1e-300, 1e300).log().abs()
    first = operands[0].value.to(torch.float64).abs().nan_to_num(0.0, 0.0)
    return first**2 if name == "erfc" else first
