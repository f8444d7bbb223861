"""Which calls a solution has to get right, in which order. Pure.

A declared size must be handled, because the problem says so; at another size a solution may raise, which
counts as not covered, but may not be wrong.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from workbench.model import Case, Problem
from workbench.numerics.kinds import KINDS, InputKind

YOURS = "yours"
LARGEST_RUN_BYTES = 2**28
"""Outputs of a long run together."""
QUICK_ELEMENTS = 2**17
"""The main case, which meets every kind of input and all the repeated calls, is at most this large."""
LARGEST_ELEMENTS = 2**24
"""Where nothing is small, the smallest declared case is tried up to this size, on fewer kinds of input."""
FEW_KINDS: tuple[InputKind, ...] = ("normal", "scale 64", "offset")
POOL = 4
"""Different sets of inputs in a long run."""


@dataclass(frozen=True)
class PlannedCall:
    """One call with inputs of its own."""

    case: Case
    inputs: str
    """An ``InputKind`` or ``yours``."""
    seed: int
    fresh: bool
    """At new addresses; else at those of the call before."""


def cases_of(problem: Problem, most_elements: int) -> tuple[Case, ...]:
    """Cases to try, the main one first: declared and quick, else a proof that is quick, largest first."""
    declared = [case for case in problem.cases if problem.elements(case) <= most_elements]
    if not declared and not problem.proofs:
        smallest = min(problem.cases, key=lambda case: problem.elements(case))
        return (smallest,) if problem.elements(smallest) <= LARGEST_ELEMENTS else ()
    found = {case.sizes: case for case in (*problem.proofs, *declared)}.values()

    def order(case: Case) -> tuple[bool, bool, int]:
        size = problem.elements(case)
        slow = size > QUICK_ELEMENTS
        return slow, case not in declared, size if slow else -size

    return tuple(sorted(found, key=order))


def calls_of(problem: Problem, cases: tuple[Case, ...], base: int) -> tuple[PlannedCall, ...]:
    """Every case once; the first, which must be covered, with every kind of input."""
    if not cases:
        return ()
    wanted: list[tuple[Case, str]] = [(cases[0], "normal")]
    wanted += [(case, "normal") for case in cases[1:]]
    kinds = KINDS if problem.elements(cases[0]) <= 8 * QUICK_ELEMENTS else FEW_KINDS
    wanted += [(cases[0], kind) for kind in kinds if kind != "normal"]
    if problem.own_inputs and cases[0] == problem.cases[0]:
        wanted.append((cases[0], YOURS))
    return tuple(
        PlannedCall(case, inputs, seed(base, turn), fresh=turn % 3 == 2)
        for turn, (case, inputs) in enumerate(wanted)
    )


def seed(base: int, turn: int) -> int:
    """A number nobody can guess without ``base``."""
    return int.from_bytes(hashlib.sha256(f"{base}/{turn}".encode()).digest()[:6], "little")


def run_length(output_bytes: int, most: int) -> int:
    """Calls of a long run whose outputs still fit; at least a few."""
    return max(POOL + 1, min(most, LARGEST_RUN_BYTES // max(output_bytes, 1)))
