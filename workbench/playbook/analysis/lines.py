"""Lines of a plane that share what is read beside them, as the channels of all pixels of an image do.

Owns when a kernel without rows consists of such lines, and whether a thread should have the same place of
several. lines_kernel.py writes it. copies.py has rows that are as long as several blocks; these are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.ir.expr import Index, Load, Reduction, unguarded, walk_all
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ZERO, Size, product
from workbench.playbook.ir.views import NotAView, View, joined, runs
from workbench.playbook.schedules.schedule import Schedule

_LEAST_AT_WORK = 0.6
"""Threads of a block that have a place of a line, where it is worth it."""


@dataclass(frozen=True)
class Lines:
    """All elements of a kernel, as planes of lines."""

    planes: Size
    lines: Size
    """Of a plane."""
    places: Size
    """Of a line."""

    def parts(self, load: Load) -> tuple[View, View] | None:
        """Where a load lies by plane (with its offset) and by place; None where it differs by line too."""
        try:
            plane, line, place = runs(load.view, (self.planes, self.lines, self.places))
        except NotAView:
            return None
        if any(not axis.stride.is_zero for axis in line):
            return None
        return joined((plane,), load.view.offset), joined((place,), ZERO)


def lines_of(kernel: Kernel) -> Lines | None:
    """The lines of a kernel: beside what lies as the result does, it reads nothing that differs by line."""
    roots = [store.value for store in kernel.stores]
    plain = {expr.serial for expr in unguarded(*roots)}
    found = {part.serial: part for part in walk_all(roots) if isinstance(part, Load | Index | Reduction)}
    loads = [leaf for leaf in found.values() if isinstance(leaf, Load) and not leaf.lookups]
    flat = kernel.ahead is None and all(s.level == "flat" and s.view.is_linear for s in kernel.stores)
    if not flat or len(loads) < len(found) or any(load.serial not in plain for load in loads):
        return None
    beside = [load for load in loads if not load.view.is_linear]
    if len(beside) == len(loads):
        return None
    cuts = {cut: None for load in beside for cut in _cuts(load.view)}
    return next((cut for cut in cuts if all(cut.parts(load) for load in beside)), None)


def _cuts(view: View) -> list[Lines]:
    """Each axis that a view does not vary on, with a varying one behind it."""
    sizes = [axis.size for axis in view.axes]
    return [
        Lines(product(sizes[:place]), axis.size, product(sizes[place + 1 :]))
        for place, axis in enumerate(view.axes[:-1])
        if axis.stride.is_zero
    ]


def worth_lines(lines: Lines, schedule: Schedule, declared: Sequence[Mapping[str, int]]) -> bool:
    """True where lines are whole vectors, no longer than a block, and keep most of its threads at work."""
    return bool(declared) and all(_fit(lines, schedule, case) for case in declared)


def _fit(lines: Lines, schedule: Schedule, case: Mapping[str, int]) -> bool:
    packs, rest = divmod(lines.places.at(case), schedule.width)
    if rest or not 0 < packs <= schedule.threads or lines.lines.at(case) < 2:
        return False
    return schedule.threads // packs * packs >= _LEAST_AT_WORK * schedule.threads
