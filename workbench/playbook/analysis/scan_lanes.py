"""How many lanes scan a row along memory: a few for a short one, a block for a long one.

Owns which lanes are offered, and the choice where it is left open. A block has nothing to do for most of its
threads where a row has eight columns, and waits at two barriers for it. Never writes text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from workbench.playbook.analysis.scan_joins import in_rows
from workbench.playbook.ir.program import Scan
from workbench.playbook.ir.sizes import Size
from workbench.playbook.schedules.schedule import Schedule, width_over

Cases = Sequence[Mapping[str, int]]

WARP = 32
LANES = ("32", "16", "8", "4", "2", "1")
"""Lanes of a warp that may have a row."""
_MOST_OF_A_LANE = 32
"""Columns of a lane, beyond which a row is a block's where that is left open; twice as many can be had."""
_FEW_COLUMNS, _FULL = 256, 2048
"""Rows of more columns are a warp's only if so many of them fill a card with warps (both are guesses)."""


def lanes_offered(scans: Iterable[Scan], cases: Cases) -> tuple[str, ...]:
    """Which lanes make sense for the rows of these scans; none where a block or a thread has them anyway."""
    most = max(
        (scan.columns.at(case) for scan in scans if _may_have_lanes(scan) for case in cases), default=0
    )
    return tuple(one for one in LANES if int(one) < 2 * most and most <= 2 * _MOST_OF_A_LANE * int(one))


def lanes_of(schedule: Schedule, scan: Scan, cases: Cases) -> int:
    """Lanes of a warp that scan a row, at the declared sizes; 0 where they do not."""
    if schedule.scan_lanes == "block" or not _may_have_lanes(scan):
        return 0
    if schedule.scan_lanes != "fit":
        return int(schedule.scan_lanes)
    return min((_fitted(schedule, scan.rows, scan.columns, sizes) for sizes in cases), default=0)


def _may_have_lanes(scan: Scan) -> bool:
    """Rows that lie side by side have a thread each."""
    return in_rows(scan)


def _fitted(schedule: Schedule, rows: Size, columns: Size, sizes: Mapping[str, int]) -> int:
    length, many = columns.at(sizes), rows.at(sizes) >= _FULL
    if length > (_MOST_OF_A_LANE * WARP if many else _FEW_COLUMNS):
        return 0
    vectors = -(-length // width_over(schedule.width, length))
    return min(WARP, 1 << max(vectors - 1, 0).bit_length())
