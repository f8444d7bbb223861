"""Concatenations of one and the same: a piece that repeats, computed without asking which piece it is.

The angles of a rotary embedding stand twice in a row, ``cat((angles, angles), -1)``. Spelled as a choice, all
that computes an angle is there for either half. Owns the rewrite of what is stored. Never decides on what is
computed where; pieces that differ stay a choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Pool, walk
from workbench.playbook.ir.sizes import ZERO, Size, number
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, runs
from workbench.playbook.lowering.pieces import one_stride


@dataclass(frozen=True)
class _Cut:
    """Pieces of one length along an axis of a space, first to last."""

    axes: tuple[Size, ...]
    """Of the space."""
    along: int
    """Which of them is cut."""
    length: Size
    pieces: tuple[Expr, ...]


def with_equal_pieces(pool: Pool, expr: Expr) -> Expr:
    """The same values, where pieces of a concatenation that are all equal are one that repeats."""
    while any(_repeating(pool, part) is not None for part in walk(expr, True) if _is_choice(part)):
        expr = pool.mapped(
            expr, lambda part: _repeating(pool, part) if _is_choice(part) else None, bodies=True
        )
    return expr


def _is_choice(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op == "select"


@lru_cache(maxsize=4096)
def _repeating(pool: Pool, choice: Expr) -> Expr | None:
    """A choice among equal pieces as the first of them, over and over; None for any other. A loop's step is
    asked about again for each step behind it."""
    cut = _cut(pool, choice)
    if cut is None:
        return None
    first, *others = cut.pieces
    try:
        for place, other in enumerate(others, start=1):
            if pool.through(first, _shifted(cut, number(place) * cut.length)) is not other:
                return None
        return pool.through(first, _over_and_over(cut))
    except NotAView:
        return None


def _cut(pool: Pool, expr: Expr) -> _Cut | None:
    """The pieces of a choice by the place along an axis; None where they are not all of one length."""
    pieces, ends = list[Expr](), list[Size]()
    place: Index | None = None
    rest = expr
    while True:
        match rest:
            case Apply(
                op="select", args=(Apply(op="lt", args=(Index() as at, Const() as end)), piece, other)
            ):
                if (place is not None and at is not place) or not isinstance(end.value, (int, str)):
                    break
                place, rest = at, other
                pieces.append(piece)
                ends.append(pool.sizes.read(end.value))
            case _:
                break
    axes = () if place is None else merged(place.view).axes
    along = [position for position, axis in enumerate(axes) if not axis.stride.is_zero]
    if place is None or len(along) != 1 or not axes[along[0]].stride.is_one or not place.view.offset.is_zero:
        return None
    pieces.append(rest)
    ends.append(axes[along[0]].size)
    if any(end != number(count) * ends[0] for count, end in enumerate(ends, start=1)):
        return None
    return _Cut(tuple(axis.size for axis in axes), along[0], ends[0], tuple(pieces))


def _shifted(cut: _Cut, by: Size) -> Callable[[View], View]:
    """What is ``by`` places further along the axis, seen from where it would be without them."""

    def change(view: View) -> View:
        parts = runs(view, cut.axes)
        return joined(parts, view.offset + -(by * one_stride(parts[cut.along])))

    return change


def _over_and_over(cut: _Cut) -> Callable[[View], View]:
    """The first piece again in the place of every other."""

    def change(view: View) -> View:
        parts = list(runs(view, cut.axes))
        again = Axis(number(len(cut.pieces)), ZERO)
        parts[cut.along] = (again, Axis(cut.length, one_stride(parts[cut.along])))
        return joined(tuple(parts), view.offset)

    return change
