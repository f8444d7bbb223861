"""Rows that read the same as others far from them: a place's vector in every sentence, a bias of all heads.

Owns the finding of the axis along which rows repeat what they read, and the order in which rows that read
the same follow one another. Never writes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.row_passes import Pass, RowSpace
from workbench.playbook.ir.expr import Expr, Load, leaves
from workbench.playbook.ir.program import Buffer
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import NotAView, View, runs, split

_IN_L1 = 64 * 1024
"""Bytes that all blocks of a multiprocessor find in L1 anyway."""
_A_LINE = 128
"""Bytes of a row from which on it does not matter that the next one in memory is written by another block."""


@dataclass(frozen=True)
class Repeats:
    """Row ``(o * times + t) * inner + n`` reads, for every ``t``, the same of some inputs."""

    outer: Size
    times: Size
    inner: Size
    loads: tuple[Load, ...]
    """At full level: what such rows share."""


def repeats_of(space: RowSpace, passes: Iterable[Pass]) -> Repeats | None:
    """The order in which most of what rows read is shared by neighbours; None where that is no more than
    neighbours in memory share, as in pairs of rows: one of each is another's in either order."""
    loads = space.column_loads([root for step in passes for root in step.roots])
    found: dict[tuple[Size, Size, Size], list[Load]] = {}
    for load in loads:
        for axes in _candidates(space, load):
            if axes not in found:
                found[axes] = [one for one in loads if _repeats(space, one, axes)]
    best = max(found, key=lambda axes: len(found[axes]), default=None)
    if best is None or len(found[best]) <= sum(_follows(space, load) for load in loads):
        return None
    return Repeats(*best, tuple(found[best]))


def is_worth_it(
    repeats: Repeats, space: RowSpace, buffers: Mapping[str, Buffer], sizes: Iterable[Mapping[str, int]]
) -> bool:
    """Whether L1 has not kept from row to row what is shared, and rows are long enough to lie apart."""
    element = min(DTYPE_BYTES[buffers[load.buffer].dtype] for load in repeats.loads)
    return all(
        repeats.times.at(one) > 1
        and repeats.inner.at(one) * space.columns.at(one) * element * len(repeats.loads) > _IN_L1
        and space.columns.at(one) * element >= _A_LINE
        for one in sizes
    )


def read_again(repeats: Repeats, space: RowSpace, element: int, sizes: Mapping[str, int]) -> float:
    """Bytes that rows ask L2 for after another has read them, of an input with elements of so many bytes."""
    rows = (repeats.times.at(sizes) - 1) * repeats.outer.at(sizes) * repeats.inner.at(sizes)
    return float(rows * space.columns.at(sizes) * element)


def _candidates(space: RowSpace, load: Load) -> list[tuple[Size, Size, Size]]:
    """Axes of the rows on which an index does not depend that is found by others after it."""
    found = []
    for view in _row_views(space, [load]):
        axes = view.axes
        for at, axis in enumerate(axes[:-1]):
            if axis.stride.is_zero:
                outer = product(one.size for one in axes[:at])
                found.append((outer, axis.size, product(one.size for one in axes[at + 1 :])))
    return found


def _repeats(space: RowSpace, load: Load, axes: Sequence[Size]) -> bool:
    """Whether nothing that finds a load depends on the middle axis, and something does on the last."""
    moves = False
    for view in _row_views(space, [load]):
        try:
            _, middle, inner = runs(view, axes)
        except NotAView:
            return False
        if any(not axis.stride.is_zero for axis in middle):
            return False
        moves = moves or any(not axis.stride.is_zero for axis in inner)
    return moves


def _follows(space: RowSpace, load: Load) -> bool:
    """Whether a row and the next in memory read the same, and rows further on do not."""
    views = [view for view in _row_views(space, [load]) if not view.is_constant]
    return bool(views) and all(view.axes[-1].stride.is_zero for view in views)


def _row_views(space: RowSpace, loads: Sequence[Load]) -> list[View]:
    """What a load, and whatever looks its place up, finds from row to row."""
    found: list[View] = []
    stack: list[Expr] = list(loads)
    while stack:
        for leaf in leaves(stack.pop()):
            view = getattr(leaf, "view", None)
            assert isinstance(view, View)
            if view.axes:
                found.append(split(view, space.rows, space.columns)[0])
    return found
