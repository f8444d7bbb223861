"""Reductions whose neighbouring rows share a weight a column, as tokens that are pooled by their scores do.

Owns which parts of a row's values neighbours share and how many of them do; weights_kernel.py writes the
kernel, weights_estimate.py models it. Never writes text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import Target
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.ir.expr import Const, Expr, Index, Load, Pool, unguarded, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, ZERO, Size
from workbench.playbook.ir.views import split
from workbench.playbook.schedules.schedule import LEAST_PIECE, Schedule
from workbench.playbook.text.indexing import is_unit

LANES = 32
LEAST = 32
"""Neighbours that are worth it: a warp's lanes in scalars."""
_PLAIN = frozenset(["sum", "prod", "max", "min", "any", "all"])


@dataclass(frozen=True)
class SharedWeights:
    """What a column asks of all neighbours alike."""

    parts: tuple[Expr, ...]
    """The largest expressions of that kind, each different from column to column."""
    neighbours: Size
    """Rows side by side that share them."""
    rows: Size
    columns: Size

    def width(self, schedule: Schedule, sizes: Mapping[str, int]) -> int:
        """Neighbours that a lane has side by side."""
        near, most = self.neighbours.at(sizes), schedule.width
        return next((one for one in (most, most // 2) if one and near % one == 0), 1)

    def pieces(self, schedule: Schedule, target: Target, sizes: Mapping[str, int]) -> int:
        """Blocks that share the columns of a bundle of rows, as the plan has it; 1 where rows are many."""
        columns = self.columns.at(sizes)
        if not schedule.split or columns <= LEAST_PIECE["thread"]:
            return 1
        blocks = math.ceil(self.rows.at(sizes) / (LANES * self.width(schedule, sizes)))
        fill = target.sm_count * (target.threads_per_sm // (2 * schedule.threads))
        return max(1, min(fill // max(blocks, 1), math.ceil(columns / LEAST_PIECE["thread"])))


def weights_of(pool: Pool, kernel: Kernel) -> SharedWeights | None:
    """The weights of plain reductions in one pass, whose rows lie side by side; None for other kernels."""
    if kernel.stores[0].level == "flat" or kernel.tail is not None:
        return None
    space = RowSpace(pool, kernel)
    if space.rows.is_one or any(store.level != "row" for store in kernel.stores):
        return None
    passes = passes_of(space, kernel, single_pass=False)
    if len(passes) != 1 or any(one.kind not in _PLAIN for one in passes[0].accumulators):
        return None
    roots = passes[0].roots
    kinds = {leaf.serial: _kind(space, leaf) for root in roots for leaf in walk(root) if _is_leaf(leaf)}
    if None in kinds.values() or not _reads_beside(space, roots, kinds):
        return None
    parts = _largest(space, roots, kinds)
    neighbours = _fewest([size for size in kinds.values() if size not in (None, ZERO, ONE)])
    if not parts or neighbours is None:
        return None
    return SharedWeights(parts, neighbours, space.rows, space.columns)


def weights_at(pool: Pool, kernel: Kernel, cases: Sequence[Mapping[str, int]]) -> SharedWeights | None:
    """The same where sharing is worth it at every shape."""
    found = weights_of(pool, kernel)
    return found if found is not None and worth_sharing(found, cases) else None


def worth_sharing(found: SharedWeights, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where at every shape so many rows share a weight that a warp reads what lies beside it."""
    return all(found.neighbours.at(case) >= LEAST for case in cases)


def _is_leaf(expr: Expr) -> bool:
    return isinstance(expr, Load | Index)


def _kind(space: RowSpace, leaf: Expr) -> Size | None:
    """Neighbours that find the same element; zero where all rows do, one where each has its own beside the
    next row's, None for any other."""
    assert isinstance(leaf, Load | Index)
    row, _ = split(leaf.view, space.rows, space.columns)
    if row.is_constant:
        return ZERO
    if row.axes[-1].stride.is_zero:
        return row.axes[-1].size
    looked_up = isinstance(leaf, Load) and bool(leaf.lookups)
    return ONE if isinstance(leaf, Load) and is_unit(row) and not looked_up else None


def _reads_beside(space: RowSpace, roots: Sequence[Expr], kinds: Mapping[int, Size | None]) -> bool:
    """True where what rows have of their own is read whichever way conditions go, and differs by column."""
    plain = {leaf.serial for root in roots for leaf in unguarded(root)}
    own = [leaf for root in roots for leaf in walk(root) if _is_leaf(leaf) and kinds[leaf.serial] == ONE]
    return bool(own) and all(
        leaf.serial in plain and space.row_form(leaf) is None and not isinstance(leaf, Index) for leaf in own
    )


def _largest(space: RowSpace, roots: Sequence[Expr], kinds: Mapping[int, Size | None]) -> tuple[Expr, ...]:
    """Parts of the roots without anything that a row has of its own, one of which neighbours share."""
    shared: dict[int, bool] = {}
    varied: dict[int, bool] = {}
    found: dict[int, Expr] = {}
    for root in roots:
        for part in walk(root):
            below = part.operands
            own = kinds.get(part.serial)
            shared[part.serial] = own != ONE and all(shared[one.serial] for one in below)
            here = own not in (None, ZERO, ONE)
            varied[part.serial] = here or any(varied[one.serial] for one in below)
    for root in roots:
        stack = [root]
        while stack:
            part = stack.pop()
            if not shared[part.serial]:
                stack += part.operands
            elif varied[part.serial] and space.row_form(part) is None and not isinstance(part, Const):
                found[part.serial] = part
    return tuple(found[serial] for serial in sorted(found))


def _fewest(sizes: Sequence[Size]) -> Size | None:
    """The one that divides all others; None where there is none."""
    return next((one for one in sizes if all(one.divides(other) for other in sizes)), None)
