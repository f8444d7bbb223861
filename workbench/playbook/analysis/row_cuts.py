"""Windows taken a row at a time: what of a result can be made of the rows that were read so far.

Owns which values wait from one row to the next while a thread walks down its plane. Knows nothing of what is
folded: sums of products, largest elements and places of them are all cut alike. Writes no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.playbook.ir.expr import Const, Expr, Index, Load, leaves
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.stencil import Stencil, seen_of, stencils_of
from workbench.playbook.ir.views import View

MOST_WAITING = 16
"""Values that wait for each column of results: windows of 7 x 7 have 6 results begun at a time."""
_STEADY = -1
"""The level of what needs no row: numbers, and what a whole plane shares."""


@dataclass(frozen=True)
class Place:
    """Which element of a window an expression is, as seen from a result's walk."""

    stencil: Stencil
    level: int
    """Steps before it is read, from the first row that any window of the result has."""
    row: int
    """Of the rows that one step reads."""
    along: int
    """Elements from the window's first."""


@dataclass(frozen=True)
class RowCut:
    """Results whose windows can be taken row by row; one step of the walk makes one row of results whole."""

    stencils: tuple[Stencil, ...]
    places: Mapping[int, Place]
    """Elements of windows, by the serial of their expression."""
    waiting: tuple[tuple[Expr, ...], ...]
    """After each step but the last of a result: what its later steps need of those before."""

    @property
    def last(self) -> int:
        """The level at which a result is whole."""
        return len(self.waiting)

    @property
    def stride(self) -> int:
        """Rows from one step to the next."""
        return self.stencils[0].down.stride

    @property
    def is_beside(self) -> bool:
        """True where planes lie side by side, as channels-last images have them."""
        return not self.stencils[0].beside.is_one

    @property
    def before(self) -> int:
        """Rows in front of the tensor's first, in the first windows."""
        return max(stencil.down.padding for stencil in self.stencils)

    def rows(self, stencil: Stencil) -> int:
        """Rows that one step reads of a tensor."""
        return 1 + max(place.row for place in self.places.values() if place.stencil is stencil)


def cut_of(kernel: Kernel, known: tuple[Stencil, ...]) -> RowCut | None:
    """How a kernel's windows are taken row by row; None where they cannot be, or too much would wait."""
    stencils = stencils_of(kernel, known)
    if len({one.down.stride for one in stencils}) != 1 or not all(map(_lies_in_rows, stencils)):
        return None
    roots = [store.value for store in kernel.stores]
    places = _places(stencils)
    parts = _below(roots, places)
    places = {serial: place for serial, place in places.items() if serial in parts}
    last = max(place.level for place in places.values())
    levels = _levels(parts.values(), places, stencils[0], last)
    needed = dict.fromkeys(levels, _STEADY)
    needed.update((root.serial, last) for root in roots)
    for part in parts.values():
        for operand in _operands(part, places):
            needed[operand.serial] = max(needed[operand.serial], levels[part.serial])
    waiting = tuple(
        tuple(p for s, p in parts.items() if _STEADY < levels[s] <= level < needed[s])
        for level in range(last)
    )
    return RowCut(stencils, places, waiting) if sum(map(len, waiting)) <= MOST_WAITING else None


def _lies_in_rows(stencil: Stencil) -> bool:
    """True for planes that lie in memory as they are read: their rows' neighbours beside each other, or the
    planes themselves."""
    if len(stencil.windows) != 2:
        return False
    for leaf in leaves(stencil.source):
        if not isinstance(leaf, Load) or leaf.lookups:
            return False
        found = stencil.steps(leaf.view)
        if found is None or not _has_neighbours(stencil, *found[1:]):
            return False
    return any(True for _ in leaves(stencil.source))


def _has_neighbours(stencil: Stencil, steps: tuple[Size, ...], beside: View) -> bool:
    """True where a tensor has neighbours of a row beside each other, or of planes that lie side by side.

    A channel with several results is read again by its neighbour.
    """
    if stencil.beside.is_one:
        return steps[-1].is_one
    near = bool(beside.axes) and (beside.axes[-1].stride.is_one or beside.axes[-1].stride.is_zero)
    sizes = zip(steps, stencil.seen, strict=True)
    return near and not any(step.is_zero and not size.is_one for step, size in sizes)


def _places(stencils: tuple[Stencil, ...]) -> dict[int, Place]:
    before = max(stencil.down.padding for stencil in stencils)
    found = {}
    for stencil in stencils:
        down, along = stencil.down, stencil.along
        for serial, (row, column) in stencil.places.items():
            level, rest = divmod(before - down.padding + row * down.dilation, down.stride)
            found[serial] = Place(stencil, level, rest, column * along.dilation)
    return found


def _operands(part: Expr, places: Mapping[int, Place]) -> tuple[Expr, ...]:
    return () if part.serial in places else part.operands


def outside(kernel: Kernel, cut: RowCut) -> list[Load]:
    """What a kernel's results read beside their windows."""
    below = _below([store.value for store in kernel.stores], cut.places)
    return [part for serial, part in below.items() if isinstance(part, Load) and serial not in cut.places]


def _below(roots: Iterable[Expr], places: Mapping[int, Place]) -> dict[int, Expr]:
    """All that the roots need down to the windows' elements, operands first."""
    found: dict[int, Expr] = {}
    waiting = list(roots)
    while waiting:
        part = waiting.pop()
        if part.serial not in found:
            found[part.serial] = part
            waiting += _operands(part, places)
    return dict(sorted(found.items()))


def _levels(parts: Iterable[Expr], places: Mapping[int, Place], one: Stencil, last: int) -> dict[int, int]:
    """The step at which each part can be made; what each result has of its own is read when it is whole."""
    levels: dict[int, int] = {}
    for part in parts:
        if part.serial in places:
            levels[part.serial] = places[part.serial].level
        elif isinstance(part, Const):
            levels[part.serial] = _STEADY
        elif isinstance(part, (Load, Index)):
            shared = one.of_plane(part.view) is not None and not part.operands
            levels[part.serial] = _STEADY if shared else last
        else:
            levels[part.serial] = max(levels[operand.serial] for operand in part.operands)
    return levels


def held_by(cut: RowCut, results: int, ahead: int) -> int:
    """Values that a thread with so many results side by side, and steps on their way, keeps."""
    seen = sum(cut.rows(one) * seen_of(one.along, results) for one in cut.stencils)
    return (1 + ahead) * seen + results * sum(map(len, cut.waiting))
