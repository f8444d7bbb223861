"""Vectors that are looked up for some places alone: where one has none of these, nothing is read.

Owns which loads those are, and the conditions of a vector's elements, which come before what they ask for.
A box of one image in another is a small part of it, and a choice by places tells where it is. A load that
is looked up waits for its index in any case; others are not made to wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workbench.playbook.ir.expr import Apply, Expr, Index, Load, unguarded, walk
from workbench.playbook.ir.paths import choices_before
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.kernels.packs import looked_up_together
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import run_of

Each = Callable[[Expr, str], list[str]]
"""Statements that leave a condition of element ``k`` in a place of that name."""


@dataclass
class Wanted:
    """What is known before anything is looked up."""

    lines: list[str] = field(default_factory=list)
    bound: dict[int, Text] = field(default_factory=dict)
    """Conditions of element ``k``, by their serials."""
    tests: dict[int, str] = field(default_factory=dict)
    """By the serial of a load: whether any element of its vector is looked at."""


def wanted_vectors(frame: Frame, kernel: Kernel, each: Each) -> Wanted:
    """The conditions of looked-up vectors, each found once for all elements of a vector."""
    wanted = Wanted()
    if frame.ends_inside:
        return wanted
    roots = [store.value for store in kernel.stores]
    asked: dict[Expr, dict[bool, list[Load]]] = {}
    for load, _ in looked_up_together(frame, unguarded(*roots)):
        choice = next((one for one in choices_before(roots, load) if _is_by_place(one[0])), None)
        if choice is not None:
            condition, way = choice
            asked.setdefault(condition, {}).setdefault(way, []).append(load)
    for condition, ways in asked.items():
        _ask(frame, wanted, condition, ways, each)
    return wanted


def _ask(frame: Frame, wanted: Wanted, condition: Expr, ways: Mapping[bool, list[Load]], each: Each) -> None:
    """Statements that find the condition for each element, and whether any of them looks at a load."""
    mask = frame.names.new("chosen")
    wanted.bound[condition.serial] = Text(f"{mask}[k]")
    lines = each(condition, f"{mask}[k]")
    wanted.lines += ["// A vector is looked up where any of its elements is wanted.", f"bool {mask}[VEC];"]
    for way, loads in ways.items():
        test = frame.names.new("any_chosen" if way else "any_other")
        wanted.lines.append(f"bool {test} = false;")
        lines.append(f"{test} |= {'' if way else '!'}{mask}[k];")
        wanted.tests.update((load.serial, test) for load in loads)
    wanted.lines += ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", lines)]


def _is_by_place(condition: Expr) -> bool:
    """True for what neighbours mostly share: it compares places and what many of them have in common."""
    parts = list(walk(condition))
    if any(isinstance(part, Apply) and part.op == "select" for part in parts):
        return False
    loads = [part for part in parts if isinstance(part, Load)]
    alike = all(not one.lookups and (one.view.is_constant or not run_of(one.view).is_one) for one in loads)
    return alike and any(isinstance(part, (Index, Load)) for part in parts)
