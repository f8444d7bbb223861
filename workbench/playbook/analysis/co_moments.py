"""Sums of products of deviations from two means, which go along with both means in one pass.

Owns how such sums are told: ``sum((x - mean(x)) * (y - mean(y)))``, with the sums of squares of either's
deviations where these are wanted too. A covariance, a correlation and the slope of a line are made of them.
moment_helpers.py has what joins them (Chan, Golub and LeVeque, 1983). Never writes any text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.playbook.analysis.weighted_sums import Joint
from workbench.playbook.ir.expr import Apply, Expr, Reduction, leaves

KIND = "co_moments"
MOMENTS = frozenset(["welford", KIND])
"""Accumulators that take several columns in at once: those's own means first, joined with what was seen."""


@dataclass(frozen=True)
class _Product:
    """sum((one - mean(one)) * (other - mean(other)))"""

    key: int
    one: int
    """Key of sum(one)."""
    other: int


def co_moments_of(
    reductions: Mapping[int, Reduction], is_count: Callable[[Expr], bool], used: list[set[int]]
) -> list[Joint]:
    """What one pass over two operands makes of them; no reduction is made twice.

    ``used`` has the reductions that each store depends on. Of a row with an infinity the means come out as
    NaN, where their sums alone are infinite: a store that uses one of the sums must be NaN anyway.
    """
    found = [one for key, r in reductions.items() if (one := _product(key, r, reductions, is_count))]
    squares = {one.one: one.key for one in found if one.one == one.other}
    taken: set[int] = set()
    made = []
    for cross in (one for one in found if one.one != one.other):
        keys = _keys(cross, squares)
        if taken & set(keys) or not _comes_to_nan(keys, used):
            continue
        taken.update(keys)
        made.append(Joint(KIND, reductions[keys[0]].body, reductions[keys[1]].body, keys))
    return made


def _keys(cross: _Product, squares: Mapping[int, int]) -> tuple[int, ...]:
    """sum(x), sum(y), of the products, and of the squares that are wanted: of both, of x alone, or none."""
    one, other = cross.one, cross.other
    if one not in squares:
        one, other = other, one
    return (one, other, cross.key, *(squares[key] for key in (one, other) if key in squares))


def _comes_to_nan(keys: tuple[int, ...], used: list[set[int]]) -> bool:
    """True where every store that uses a sum uses what is made of its deviations."""
    for place, total in enumerate(keys[:2]):
        of_it = {keys[2], *keys[3 + place : 4 + place]}
        if any(total in one and not one & of_it for one in used):
            return False
    return True


def _product(
    key: int, reduction: Reduction, reductions: Mapping[int, Reduction], is_count: Callable[[Expr], bool]
) -> _Product | None:
    match reduction:
        case Reduction(op="sum", dtype="f32", body=Apply(op="mul", dtype="f32", args=(first, second))):
            means = [_centred_on(part, reductions, is_count) for part in (first, second)]
            if means[0] is not None and means[1] is not None:
                return _Product(key, means[0], means[1])
    return None


def _centred_on(
    part: Expr, reductions: Mapping[int, Reduction], is_count: Callable[[Expr], bool]
) -> int | None:
    """The sum in e - sum(e) / count, where e itself needs no reduction."""
    match part:
        case Apply(
            op="sub", dtype="f32", args=(operand, Apply(op="div", args=(Reduction(op="sum", key=key), count)))
        ) if key in reductions and reductions[key].body is operand and is_count(count):
            return None if any(isinstance(leaf, Reduction) for leaf in leaves(operand)) else key
    return None
