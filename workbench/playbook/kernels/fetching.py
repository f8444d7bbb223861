"""Rows whose loads are all on their way before the first value is used.

Owns the loop that does nothing but load. A loop that also computes asks for the next value when it is done
with the last one, where its steps wait for one another or branch: Welford's do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.ir.expr import Expr, Load
from workbench.playbook.kernels.column_loop import ColumnLoop
from workbench.playbook.kernels.row_kernel import RowKernel

BEFORE = -1
"""Number of the pass that only loads."""


@dataclass
class _Fetch(Pass):
    """A walk that does nothing but load."""

    loads: list[Load] = field(default_factory=list)

    @property
    def roots(self) -> list[Expr]:
        """The loads."""
        return list(self.loads)


class FetchingKernel(RowKernel):
    """A kernel whose row, or piece of a row, waits in registers from before its first pass."""

    takes_together = False

    def _fetched(self) -> list[str]:
        """The loads alone."""
        entries = self.waits.entries
        step = _Fetch(loads=[wait.load for wait, _ in entries if wait.first == 0])
        self.waits.entries = [
            (replace(wait, first=BEFORE if wait.first == 0 else wait.first), name) for wait, name in entries
        ]
        values = self._row_values(step.roots)
        asked, taken = self._edges(BEFORE, step, values, [])
        lines = [*asked, *ColumnLoop(self, BEFORE, values).text(step, []), *taken]
        comment = "// All loads are on their way before the first value is used."
        if self.next_row:
            comment = (
                "// What has arrived goes to registers; in its place comes the next row's, asked for at once."
            )
        return [*self._flush(), comment, *lines]
