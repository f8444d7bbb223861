"""What a walk over a row reads under a condition, in vectors all the same.

Owns two ways for a loop of vectors, and when each may be taken: where the condition is one for a whole
vector, that is loaded or not loaded; where the element lies a few places behind one of a vector that is
loaded anyway, it is mostly in that vector. Neither changes what is computed: the choice stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.playbook.ir.expr import Expr, Load
from workbench.playbook.ir.paths import Path, paths_of
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame
from workbench.playbook.kernels.packs import allowed, decided
from workbench.playbook.text.indexing import divisors_of

_FAR = 3
"""Places behind another up to which some element of a vector of four is in that vector."""


@dataclass(frozen=True)
class Guarded:
    """A load that is made where conditions go one way, and nowhere else."""

    load: Load
    path: Path

    def is_opposite(self, other: Guarded) -> bool:
        """True for another load of the same tensor that is made exactly where this one is not."""
        if self.load.buffer != other.load.buffer or len(self.path) != 1 or len(other.path) != 1:
            return False
        (condition, way), (against, otherwise) = *self.path, *other.path
        return condition is against and way != otherwise


def guarded_loads(roots: Iterable[Expr]) -> list[Guarded]:
    """Loads that there is one way to, under some condition, whose choice is made for every element."""
    found = [(load, next(iter(paths))) for load, paths in paths_of(roots).items() if len(paths) == 1]
    return [Guarded(load, path) for load, path in found if path and not load.lookups]


def behind(load: Load, others: Iterable[Load]) -> tuple[Load, int] | None:
    """The one of these in whose vector the element lies for most of a vector, and how many places behind."""
    for other in others:
        if other.buffer != load.buffer or other.view.axes != load.view.axes:
            continue
        places = (load.view.offset + -other.view.offset).number
        if places is not None and 0 < places <= _FAR:
            return other, places
    return None


def wanted_together(frame: Frame, one: Guarded, parts: tuple[View, View]) -> list[Size] | None:
    """What the width must divide so that a vector is wanted whole or not at all, and begins at borders; None
    where the declared sizes do not let it."""
    row, column = parts
    sizes: list[Size] = []
    for condition, _ in one.path:
        known = decided(frame, condition)
        if known is None:
            return None
        sizes += known
    steps = [axis.stride for axis in row.axes if not axis.stride.is_zero]
    sizes = [*sizes, *divisors_of(column), *steps, *([] if row.offset.is_zero else [row.offset])]
    return sizes if allowed(frame, sizes) else None
