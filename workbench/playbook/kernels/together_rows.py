"""Long rows one after the other, each shared by the whole card: the next arrives before the blocks meet.

Owns the loop over rows of a cooperative launch, and how many rows are under way at a time. All blocks of the
card hold rows of 26 MB between them; while they wait for one another, and store, the next row is on its way.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.model import Target
from workbench.playbook.analysis.row_passes import RowSpace, passes_of, waiting_loads
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, block
from workbench.playbook.kernels.next_piece import NextPiece
from workbench.playbook.kernels.split_launch import Partials
from workbench.playbook.kernels.together_kernel import BARRIER, Together, TogetherKernel, together
from workbench.playbook.schedules.fitting import MOST_THREADS_OF_PIECE, Cases, RowShape, kept_of_piece
from workbench.playbook.schedules.schedule import Schedule, split_from, split_team, split_threads

GROUPS = "{groups}"
"""Rows at a time, as the grid calls them before the plan has a name for them."""


def blocks_of(threads: int) -> int:
    """Blocks of a multiprocessor that stay, each with most of the registers that it could have."""
    return max(1, MOST_THREADS_OF_PIECE // threads)


def most_ahead(threads: int, kept: int) -> int:
    """Columns that a block keeps."""
    return threads * kept_of_piece(threads) // max(kept, 1) // 8 * 8


def in_turns(
    schedule: Schedule, target: Target, rows: int, columns: int, kept: int
) -> tuple[int, int] | None:
    """Rows at a time and blocks of each, as the plan computes them; None where rows do not take turns."""
    asked = schedule.prefetch and schedule.split and schedule.join_grid and not schedule.join_words
    if not asked or not kept or split_team(schedule) != "block" or columns <= split_from(schedule):
        return None
    threads = split_threads(schedule)
    blocks = target.sm_count * blocks_of(threads)
    at_once = blocks // -(-columns // most_ahead(threads, kept))
    if not 0 < at_once < rows:
        return None
    groups = -(-rows // -(-rows // at_once))
    return groups, blocks // groups


def any_in_turns(schedule: Schedule, target: Target, shape: RowShape, cases: Cases) -> bool:
    """True where some case's rows take turns; ``shape`` in one pass."""
    sizes = [(shape.rows.at(case), shape.columns.at(case)) for case in cases]
    return any(in_turns(schedule, target, rows, columns, shape.kept) for rows, columns in sizes)


def taken_in_turns(space: RowSpace, kernel: Kernel) -> int:
    """Loads that blocks keep of a row between meetings; 0 where nothing a column is left to do."""
    passes = passes_of(space, kernel, single_pass=True)
    return 0 if passes[-1].accumulators else len(waiting_loads(space, passes))


def ahead_of(schedule: Schedule) -> Schedule:
    """How a block computes its piece, and asks for the next row's."""
    threads = split_threads(schedule)
    own = replace(together(schedule), team="block", team_fit=False, fit=False, threads=threads, cluster=1)
    return replace(own, prefetch=True, promised=max(MOST_THREADS_OF_PIECE, threads))


class TogetherRowsKernel(TogetherKernel):
    """The one launch, whose blocks go on to the next row."""

    arriving = NextPiece

    def __init__(self, site: Site, kernel: Kernel, name: str, partials: Partials, vector: bool) -> None:
        super().__init__(site, kernel, name, partials, vector)
        self.in_part = False
        self.waits.most = kept_of_piece(site.schedule.threads)

    def _function(self) -> list[str]:
        """Storage and the first row's copies; then row after row."""
        body = self._fetched()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
            if step.accumulators:
                body += self._shared_by_all(step.accumulators)
        body += self._row_stores()
        comment, count, *kept = self.waits.declarations(self.team, "PIECE")
        rows = self.frame.macros.text(self.space.rows)
        met = [BARRIER] * sum(bool(step.accumulators) for step in self.passes)
        ahead = ["const int next_row = row + gridDim.x;"]
        head = f"for (int row = blockIdx.x; row < {rows}; row += gridDim.x)"
        return [
            *self.team.prologue,
            *self._piece(),
            comment,
            count,
            *self.next_row.before_rows("blockIdx.x"),
            "// Blocks stay for many rows. Parts of each have a place of their own: one meeting is enough.",
            *block(head, [*ahead, *self._pointer_lines, *kept, *body]),
            "// Those that had a row less meet the others all the same.",
            *block(f"if ({rows} % gridDim.x != 0 && blockIdx.x >= {rows} % gridDim.x)", met),
        ]

    def _grid(self) -> str:
        return GROUPS

    def _limits(self) -> Limits:
        return Limits(shared=f"chunk * {self.next_row.bytes_a_column}")


def rows_kernel(site: Site, kernel: Kernel, name: str) -> Together | None:
    """The kernel, with vectors where sizes allow them; None where nothing can be copied ahead."""
    site = replace(site, schedule=ahead_of(site.schedule))
    found = TogetherRowsKernel(site, kernel, name, Partials(site), site.schedule.width > 1)
    if not found.kept or not found.next_row or found.passes[-1].accumulators:
        return None
    text: KernelText = found.text()
    if text.width is not None and not text.width.is_possible:
        text = TogetherRowsKernel(site, kernel, name, found.partials, vector=False).text()
    return Together(text, most_ahead(site.schedule.threads, found.kept), found.partials.all)
