"""Kernels whose results are pairs of one of few rows and one of many, which is a matter of memory.

Owns which kernels such are; pairs.py says what a result is made of. Sixteen tokens times a weight of
4096 x 4096 are 64 MB to be read and next to nothing to compute. Writes no text; few_kernel.py does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.pairs import Operand, Pairs
from workbench.playbook.graph.summed_products import LEAST_MANY, LEAST_TERMS, MOST_FEW

MOST_SUMS = 128
"""Numbers that a thread adds up at the same time: it has 255 registers at most."""
_KINDS = frozenset(["sum", "max", "min"])
_TYPES = frozenset(["f32", "f64", "i32", "i64"])


@dataclass(frozen=True)
class FewRows:
    """How a kernel's results are pairs of one of few rows and one of many."""

    pairs: Pairs
    few: int
    many: int
    """Axes of the results."""
    count: int
    """Rows of the few that a warp has: a power of two."""

    @property
    def waiting(self) -> tuple[Operand, ...]:
        """What differs from column to column and waits in shared memory: of the few, and what all share."""
        return (*self.pairs.held(self.few, True), *self.pairs.held(None, True))

    @property
    def read(self) -> tuple[Operand, ...]:
        """What is read once: of the many."""
        return self.pairs.held(self.many, True)


def few_rows(pairs: Pairs, cases: Sequence[Mapping[str, int]]) -> FewRows | None:
    """How results are such pairs at all of the sizes; None where they are not.

    The many have to lie along their rows, so that the lanes of a warp read neighbours.
    """
    made = pairs.accumulators
    if not cases or any(one.kind not in _KINDS or one.operand.dtype not in _TYPES for one in made):
        return None
    down, across = ([pairs.axes[at].at(case) for case in cases] for at in (pairs.down, pairs.across))
    few, many = (pairs.down, pairs.across) if max(down) <= max(across) else (pairs.across, pairs.down)
    fewest, most = (down, across) if few == pairs.down else (across, down)
    count = 1 << max(1, (max(fewest) - 1).bit_length())
    found = FewRows(pairs, few, many, count)
    able = (
        max(fewest) > 1
        and count <= MOST_FEW
        and min(most) >= LEAST_MANY
        and min(pairs.columns.at(case) for case in cases) >= LEAST_TERMS
        and bool(found.read)
        and all(one.loads for one in found.read)
        and count * len(pairs.accumulators) <= MOST_SUMS
    )
    return found if able else None
