"""What reads and writes cost more where neighbouring threads reach for elements that lie far apart.

Owns the factors on the bytes of an access; estimate.py makes times of them. Guesses in part, and they say so.
"""

from __future__ import annotations

from workbench.playbook.expr import Load
from workbench.playbook.program import Store
from workbench.playbook.row_passes import RowSpace
from workbench.playbook.schedule import Schedule, Team
from workbench.playbook.sizes import ONE
from workbench.playbook.views import View, split

APART = 4.0
"""Cost of reads whose neighbours in a warp lie far apart, after what L1 saves."""
_WRITTEN_APART = 2.0
"""The same of writes, which L2 puts together before they go to memory (a guess)."""


def sectors_over_least(view: View) -> float:
    """Sectors over the least: neighbours two elements apart waste half of what they fetch."""
    last = view.axes[-1].stride if view.axes else ONE
    if last.is_one or last.is_zero:
        return 1.0
    return APART if last.number is None else min(float(abs(last.number)), APART)


def read_apart(space: RowSpace, load: Load, schedule: Schedule) -> float:
    """Neighbouring threads should read neighbouring elements, whichever axis they run along."""
    row, column = split(load.view, space.rows, space.columns)
    if schedule.team == "bundle" and schedule.cache == "registers" and _is_near(column):
        return 1.0  # turned in a tile
    along = _along(schedule.team, row, column)
    return 1.0 if not along.axes or along.axes[-1].stride.is_zero or _is_near(along) else APART


def written_apart(space: RowSpace, store: Store, team: Team) -> float:
    """The same of a result."""
    row, column = split(store.view, space.rows, space.columns)
    along = _along(team, row, column)
    turned = team == "bundle" and _is_near(column)
    return 1.0 if turned or not along.axes or _is_near(along) else _WRITTEN_APART


def _along(team: Team, row: View, column: View) -> View:
    return row if team in ("thread", "bundle") else column


def _is_near(view: View) -> bool:
    return bool(view.axes) and view.axes[-1].stride.is_one
