"""What the pointwise work on a product's results takes beside these: of a whole row, of a column, of each.

Owns which values are the same for all results of a row, such as what a norm makes of a channel's variance, or
of a column, and which loads are a result's own. The kernels' results are the business of product_results.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.pairs import steps_of_places
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, always_below, walk, walk_all
from workbench.playbook.ir.program import Convolution, InPlaceOfCall
from workbench.playbook.ir.sizes import Size

MOST_OF_COLUMN = 4
"""Values of a column that a lane keeps in registers: it has sixteen rows of results to use them for."""
_Needs = frozenset[int] | None
"""The axes along which a value differs; None where it can not be told."""


@dataclass(frozen=True)
class BesideResults:
    """Values that are evaluated whatever a result is, each once."""

    rows: tuple[Expr, ...] = ()
    """The same for all results of a row, float32, what costs most first."""
    columns: tuple[Expr, ...] = ()
    """The same for all results of a column."""
    own: tuple[Load, ...] = ()
    """Elements that a result has for itself."""

    @property
    def known(self) -> set[int]:
        """Serials of what is made once for many results, and of all that it is made of."""
        return {expr.serial for expr in walk_all([*self.rows, *self.columns])}


def beside_results(made: InPlaceOfCall, room: int) -> BesideResults:
    """What is stored is made of, with ``room`` for as many values of a row. A row is a channel."""
    if isinstance(made, Convolution) and made.across_channels:
        return BesideResults()  # a lane has a row of another kernel there
    values = tuple(store.value for store in made.stores)
    row = frozenset([1]) if isinstance(made, Convolution) else frozenset([0, 1])
    return _beside(values, made.buffer, made.shape_stored, row, room)


@lru_cache(maxsize=4096)
def _beside(
    values: tuple[Expr, ...], buffer: str, axes: tuple[Size, ...], row: frozenset[int], room: int
) -> BesideResults:
    """The same; asked again for every vector of a search."""
    needs = _needs(values, buffer, axes)
    column = frozenset(range(len(axes))) - row | {0}
    of_rows, of_columns, own = dict[int, Expr](), dict[int, Expr](), dict[int, Load]()
    left, seen = list(reversed(values)), set[int]()
    while left:
        expr = left.pop()
        if expr.serial in seen:
            continue
        seen.add(expr.serial)
        found = needs[expr.serial]
        if found is not None and expr.dtype == "f32" and _reads(expr):
            if found and found <= row:
                of_rows[expr.serial] = expr
                continue
            if found <= column:
                of_columns[expr.serial] = expr
                continue
        if isinstance(expr, Load) and expr.buffer != buffer and not expr.lookups:
            own[expr.serial] = expr
        left += reversed(always_below(expr))
    costly = sorted(of_rows.values(), key=lambda expr: -instructions_of([expr], fast_math=False))
    columns = tuple(of_columns.values())[:MOST_OF_COLUMN]
    return BesideResults(tuple(costly[:room]), columns, tuple(own.values()))


def _needs(values: Sequence[Expr], buffer: str, axes: Sequence[Size]) -> dict[int, _Needs]:
    found: dict[int, _Needs] = {}
    for expr in walk_all(values):
        parts = [found[operand.serial] for operand in expr.operands]
        match expr:
            case Load() | Index():
                parts.append(_steps(expr, buffer, axes))
            case Apply() | Const():
                pass
            case _:
                parts.append(None)
        known = [part for part in parts if part is not None]
        found[expr.serial] = frozenset[int]().union(*known) if len(known) == len(parts) else None
    return found


def _steps(leaf: Load | Index, buffer: str, axes: Sequence[Size]) -> _Needs:
    """The axes along which another element is read."""
    if isinstance(leaf, Load) and leaf.buffer == buffer:
        return None
    steps = steps_of_places(axes, leaf.view)
    if steps is None:
        return None
    sides = zip(steps, axes, strict=True)
    return frozenset(at for at, (step, size) in enumerate(sides) if not step.is_zero and not size.is_one)


def _reads(expr: Expr) -> bool:
    return any(isinstance(part, Load) for part in walk(expr))
