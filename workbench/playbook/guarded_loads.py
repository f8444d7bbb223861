"""What a walk over a row reads under a condition, in vectors all the same.

Owns two ways for a loop of vectors, and when each may be taken: where the condition is one for a whole
vector, that is loaded or not loaded; where the element lies a few places behind one of a vector that is
loaded anyway, it is mostly in that vector. Neither changes what is computed: the choice stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.playbook.expr import Apply, Expr, Load, unguarded, walk
from workbench.playbook.indexing import divisors_of
from workbench.playbook.kernel_text import Frame
from workbench.playbook.packs import allowed, decided
from workbench.playbook.sizes import Size
from workbench.playbook.views import View

_FAR = 3
"""Places behind another up to which some element of a vector of four is in that vector."""


@dataclass(frozen=True)
class Guarded:
    """A load that is made where a condition holds, and nowhere else."""

    load: Load
    condition: Expr


def guarded_loads(roots: Iterable[Expr]) -> list[Guarded]:
    """Loads that each stand under one condition, whose choice is made for every element."""
    roots = list(roots)
    open_parts = {part.serial for root in roots for part in unguarded(root)}
    found: dict[int, Guarded] = {}
    elsewhere: set[int] = set()
    for root in roots:
        for part in walk(root):
            match part:
                case Apply(op="select", args=(condition, Load() as load, other)) if (
                    part.serial in open_parts and not load.lookups
                ):
                    one = found.setdefault(load.serial, Guarded(load, condition))
                    if one.condition is not condition:
                        elsewhere.add(load.serial)
                    elsewhere.add(other.serial)
                case _:
                    elsewhere.update(operand.serial for operand in part.operands)
    return [one for serial, one in sorted(found.items()) if serial not in elsewhere]


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
    sizes = decided(frame, one.condition)
    if sizes is None:
        return None
    row, column = parts
    steps = [axis.stride for axis in row.axes if not axis.stride.is_zero]
    sizes = [*sizes, *divisors_of(column), *steps, *([] if row.offset.is_zero else [row.offset])]
    return sizes if allowed(frame, sizes) else None
