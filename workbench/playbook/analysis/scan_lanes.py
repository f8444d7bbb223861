"""How many lanes scan a row: a few for a short one, a block for a long one.

Owns the choice where it is left open. A block has nothing to do for most of its threads where a row has
eight columns, and waits at two barriers for it. Never writes text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.ir.program import Scan
from workbench.playbook.ir.sizes import Size
from workbench.playbook.schedules.schedule import Schedule

WARP = 32
LANES = ("32", "16", "8", "4", "2", "1")
"""Lanes of a warp that may have a row."""
_MOST_OF_A_LANE = 32
"""Columns of a lane, beyond which a row is a block's if that is left open; twice as many may be asked for."""
_FEW_COLUMNS, _FULL = 256, 2048
"""Rows of more columns are a warp's only if there are enough of them to fill a card with warps."""


def lanes_offered(lengths: Sequence[int]) -> tuple[str, ...]:
    """Which lanes make sense for rows of these lengths."""
    most = max(lengths, default=0)
    return tuple(one for one in LANES if int(one) < 2 * most and most <= 2 * _MOST_OF_A_LANE * int(one))


def lanes_of(schedule: Schedule, scan: Scan, cases: Sequence[Mapping[str, int]]) -> int:
    """Lanes that scan a row, at the declared sizes; 0 for a block a row."""
    if schedule.scan_lanes != "fit":
        return 0 if schedule.scan_lanes == "block" else int(schedule.scan_lanes)
    return min((_fitted(schedule, scan.rows, scan.columns, sizes) for sizes in cases), default=0)


def _fitted(schedule: Schedule, rows: Size, columns: Size, sizes: Mapping[str, int]) -> int:
    length, many = columns.at(sizes), rows.at(sizes) >= _FULL
    if length > (_MOST_OF_A_LANE * WARP if many else _FEW_COLUMNS):
        return 0
    vectors = -(-length // _width(schedule, length))
    return min(WARP, 1 << max(vectors - 1, 0).bit_length())


def _width(schedule: Schedule, length: int) -> int:
    """Elements of a vector that the row divides into."""
    return next((one for one in (schedule.width, schedule.width // 2) if one and length % one == 0), 1)
