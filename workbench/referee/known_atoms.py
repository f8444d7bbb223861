"""Arithmetic on what is known of one element: a constant, a plain number, or anything. Pure.

A *number* is finite and not 0 but by chance: what comes of inputs that are drawn from a continuous range, and
of weights. *Anything* may be 0, false or an infinity over whole regions, so that it may hide what it meets.
Where it is in doubt, it is anything.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum


class Kind(Enum):
    """What is no constant."""

    NUMBER = "number"
    ANYTHING = "anything"


NUMBER, ANYTHING = Kind.NUMBER, Kind.ANYTHING
Atom = float | Kind
"""Truth is 1 or 0."""

HUGE = 1e3
"""Added to a number, constants of this size leave nothing of it in an exponential: -1e4, -1e9, the least."""
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_TRUTH: Mapping[str, Callable[[float], bool]] = {
    "logical_not": lambda x: not x,
    "bitwise_not": lambda x: not x,
    "isinf": math.isinf,
    "isnan": math.isnan,
    "isfinite": math.isfinite,
}
_NUMBERS_TRUTH = {"isinf": 0.0, "isnan": 0.0, "isfinite": 1.0}
_SINGLE: Mapping[str, Callable[[float], float]] = {
    "neg": operator.neg,
    "abs": abs,
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "sqrt": math.sqrt,
    "relu": lambda x: max(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}
_OTHERS = """
clamp clamp_min clamp_max cos erf erfc expm1 gelu leaky_relu log10 log1p log2 masked_fill maximum minimum pow
reciprocal rsqrt silu sin softplus tanh where convert_element_type _to_copy logical_and logical_or bitwise_and
bitwise_or add sub rsub mul div
"""
LOCAL = frozenset((*_OTHERS.split(), *COMPARISONS, *_TRUTH, *_SINGLE))
"""Operations whose every result is made of what lies at its own place."""


def evaluated(name: str, atoms: Sequence[Atom], is_truth: bool) -> Atom:
    """What a pointwise operation makes of its operands, in order; ``is_truth`` where its result is a bool."""
    match name, tuple(atoms):
        case ("convert_element_type" | "_to_copy", (x,)):
            return (float(bool(x)) if isinstance(x, float) else ANYTHING) if is_truth else x
        case ("where", (condition, one, other)):
            return _chosen(condition, one, other)
        case ("masked_fill", (x, mask, value)):
            return _chosen(mask, value, x)
        case ("logical_and" | "bitwise_and", (x, y)) if is_truth:
            return _all_of(x, y)
        case ("logical_or" | "bitwise_or", (x, y)) if is_truth:
            return _not(_all_of(_not(x), _not(y)))
        case ("mul", (x, y)):
            return _product(x, y)
        case ("add" | "sub", (x, y)):
            return _sum(x, y if name == "add" else _negative(y))
        case ("rsub", (x, y)):
            return _sum(_negative(x), y)
        case ("div", (x, y)):
            return _quotient(x, y)
        case (_, (x, y)) if name in COMPARISONS:
            return _compared(name, x, y)
        case (_, (x,)) if name in _TRUTH:
            if isinstance(x, float):
                return float(_TRUTH[name](x))
            return _NUMBERS_TRUTH.get(name, ANYTHING) if x is NUMBER else ANYTHING
        case (_, (float() as x,)) if name in _SINGLE:
            return _of_constant(_SINGLE[name], x)
    return ANYTHING if is_truth else number_of(atoms)


def number_of(atoms: Sequence[Atom]) -> Atom:
    """What any other operation makes of numbers, and of finite constants beside them: a number."""
    return NUMBER if NUMBER in atoms and all(_plain(atom) for atom in atoms) else ANYTHING


def merged(atoms: Sequence[Atom]) -> Atom:
    """One of these, nobody knows which."""
    if len(set(atoms)) == 1:
        return atoms[0]
    return NUMBER if atoms and all(solid(atom) for atom in atoms) else ANYTHING


def solid(atom: Atom) -> bool:
    """Finite and not 0: what it is multiplied with is needed."""
    return atom is NUMBER or (isinstance(atom, float) and math.isfinite(atom) and atom != 0)


def swallows(atom: Atom) -> bool:
    """An infinity, as good as one, or what may be one: what is added to it need not be known."""
    return atom is ANYTHING or _huge(atom)


def _huge(atom: Atom) -> bool:
    return isinstance(atom, float) and not abs(atom) < HUGE


def _plain(atom: Atom) -> bool:
    return atom is NUMBER or (isinstance(atom, float) and math.isfinite(atom))


def _chosen(condition: Atom, one: Atom, other: Atom) -> Atom:
    if isinstance(condition, float):
        return one if condition else other
    return merged([one, other])


def _not(x: Atom) -> Atom:
    return float(not x) if isinstance(x, float) else ANYTHING


def _all_of(x: Atom, y: Atom) -> Atom:
    if x == 0 or y == 0:
        return 0.0
    if isinstance(x, float):
        return y if isinstance(y, Kind) else 1.0
    return x if isinstance(y, float) else ANYTHING


def _product(x: Atom, y: Atom) -> Atom:
    if x == 0 or y == 0:
        return 0.0
    if isinstance(x, float) and isinstance(y, float):
        return x * y
    return NUMBER if solid(x) and solid(y) else ANYTHING


def _sum(x: Atom, y: Atom) -> Atom:
    if isinstance(x, float) and isinstance(y, float):
        return x + y
    for atom in (x, y):
        if isinstance(atom, float) and _huge(atom):
            return math.copysign(math.inf, atom)
    return ANYTHING if ANYTHING in (x, y) else NUMBER


def _negative(x: Atom) -> Atom:
    return -x if isinstance(x, float) else x


def _quotient(x: Atom, y: Atom) -> Atom:
    if x == 0 or (isinstance(y, float) and math.isinf(y)):
        return 0.0
    if isinstance(x, float) and isinstance(y, float):
        return x / y if y else math.copysign(math.inf, x)
    return NUMBER if solid(x) and solid(y) else ANYTHING


def _compared(name: str, x: Atom, y: Atom) -> Atom:
    """Constants, or an infinity with a number, which might be any finite one."""
    if isinstance(x, float) and isinstance(y, float):
        return float(COMPARISONS[name](x, y))
    for one, other, number_first in ((x, y, True), (y, x, False)):
        if one is NUMBER and isinstance(other, float) and math.isinf(other):
            pair = (0.0, other) if number_first else (other, 0.0)
            return float(COMPARISONS[name](*pair))
    return ANYTHING


def _of_constant(function: Callable[[float], float], x: float) -> Atom:
    try:
        return float(function(x))
    except (OverflowError, ValueError):
        return -math.inf if function is math.log and x == 0 else ANYTHING
