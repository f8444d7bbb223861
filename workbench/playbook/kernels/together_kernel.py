"""Few long rows in one launch: each block keeps its piece of a row in registers and waits for all others.

Owns the text of a split whose blocks meet at grid barriers, and how much a block can keep. It rests on a
cooperative launch (CUDA programming guide, "Cooperative Groups", "Grid Synchronization"): all blocks are on
the card at the same time, or nothing is launched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.model import H100
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Accumulator, Pass, RowSpace, passes_of, waiting_loads
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.column_loop import ColumnLoop
from workbench.playbook.kernels.fetching import FetchingKernel
from workbench.playbook.kernels.kernel_text import KernelText, Limits, Site, Together
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.kernels.split_launch import Partials, SplitKernel
from workbench.playbook.schedules.fitting import Cases, RowShape, most_kept
from workbench.playbook.schedules.schedule import RESIDENT, Schedule, pieces_of, split_team, split_threads
from workbench.playbook.text.cuda_text import Text

BARRIER = "cooperative_groups::this_grid().sync();"


def most_of_a_piece(threads: int, kept: int) -> int:
    """Columns that a block keeps where RESIDENT threads share the registers of a multiprocessor."""
    return threads * most_kept(max(threads, RESIDENT)) // max(kept, 1)


_REREAD = 2
"""Columns that a block may read again from L2 for each that it could keep: 35 MB of the 50 that L2 has."""


def most_in_part(threads: int, kept: int) -> int:
    """Columns of a piece that a block keeps as far as it can."""
    return (1 + _REREAD) * most_of_a_piece(threads, kept)


def held_of(threads: int, kept: int) -> int:
    """Columns that it keeps of a piece that is too long: the loop over the others needs registers too."""
    return most_of_a_piece(threads, kept) * 3 // 4


def share_held(threads: int, kept: int, piece: float) -> float:
    """Part of a piece that a block keeps."""
    return 1.0 if piece <= most_of_a_piece(threads, kept) else held_of(threads, kept) / piece


def together(schedule: Schedule) -> Schedule:
    """How a block computes its piece: in registers, so few of them that all blocks find room at once."""
    pieces = replace(schedule, cache="registers", single_pass=True, chains=False, items=1)
    return replace(pieces, promised=max(RESIDENT, schedule.threads))


def fits_together(schedule: Schedule, shape: RowShape, cases: Cases) -> bool:
    """True where some case's rows are shared by blocks that can keep all of them; ``shape`` in one pass."""
    return any(_fits_at(schedule, shape, case) for case in cases)


def always_together(schedule: Schedule, shape: RowShape, cases: Cases) -> bool:
    """True where every case's are."""
    return all(_fits_at(schedule, shape, case) for case in cases)


def _fits_at(schedule: Schedule, shape: RowShape, case: Mapping[str, int]) -> bool:
    if not schedule.join_grid or not shape.kept or split_team(schedule) != "block":
        return False
    threads = split_threads(schedule)
    columns = shape.columns.at(case)
    pieces = pieces_of(schedule, H100, shape.rows.at(case), columns)
    return pieces > 1 and piece_of(columns, pieces) <= most_in_part(threads, shape.kept)


def keeps_pieces(space: RowSpace, kernel: Kernel, schedule: Schedule, piece: int) -> bool:
    """True where blocks keep pieces of so many columns, because something a column is left to do."""
    if not schedule.join_grid or split_team(schedule) != "block":
        return False
    passes = passes_of(space, kernel, single_pass=True)
    kept = len(waiting_loads(space, passes))
    return kept > 0 and not passes[-1].accumulators and piece <= most_in_part(schedule.threads, kept)


def piece_of(columns: int, pieces: int) -> int:
    """Columns of a piece, as the plan computes them: whole vectors."""
    return -(-columns // (8 * pieces)) * 8


class TogetherKernel(FetchingKernel, SplitKernel):
    """The one launch."""

    def __init__(self, site: Site, kernel: Kernel, name: str, partials: Partials, vector: bool) -> None:
        RowKernel.__init__(self, site, kernel, name, vector)
        self.number = 0
        self.partials = partials
        self.joins = False
        self.step = self.passes[-1]
        self.frame.scalars = ("pieces",)
        self.waits.begin = self.begin
        self.in_order = False  # what registers have no room for goes first
        self.in_part = self.kept > 0 and self._longest() > most_of_a_piece(site.schedule.threads, self.kept)

    def _longest(self) -> int:
        """Columns of the longest piece that a declared case gives a block."""
        cases = self.site.cases[: self.site.declared]
        sizes = [(self.space.rows.at(case), self.space.columns.at(case)) for case in cases]
        pieces = [(columns, pieces_of(self.site.schedule, H100, rows, columns)) for rows, columns in sizes]
        longest = [piece_of(columns, count) for columns, count in pieces if count > 1]
        most = most_in_part(self.site.schedule.threads, self.kept)
        return max((one for one in longest if one <= most), default=0)

    @property
    def kept(self) -> int:
        """Loads that wait in registers."""
        return len(self.waits.entries) if self.waits.in_registers else 0

    @property
    def tells(self) -> bool:
        """True where blocks can tell one another their partial results in this kernel's way."""
        return True

    def text(self) -> KernelText:
        """Write it."""
        body = self._function()
        text = self.frame.finish(self.name, body, self._grid(), self._limits())
        head = "template <int VEC, int PIECE>" if self.frame.vector else "template <int PIECE>"
        code = text.code.removeprefix("template <int VEC>\n")
        return replace(text, code=f"{head}\n{code}", template="{chunk}", cooperative=True)

    def _function(self) -> list[str]:
        """What a block does."""
        body = self._fetched()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
            if step.accumulators:
                body += self._shared_by_all(step.accumulators)
        body += [*self._row_stores(), *self._left_behind()]
        return self._rows([*self._piece(), *self._pointer_lines, *self._kept(), *body])

    def _grid(self) -> str:
        return f"({super()._grid()}, pieces)"

    def _limits(self) -> Limits:
        """What a launch needs: nothing beyond its registers."""
        return Limits()

    def _behind(
        self, number: int, step: Pass, row_values: dict[int, Text], texts: list[AccumulatorText]
    ) -> list[str]:
        """What registers have no room for goes first: its loads follow those that are on their way."""
        if not self.in_part:
            return []
        source = "memory" if number == 0 else "L2"
        lines = ColumnLoop(self, number, row_values, behind=True).text(step, texts)
        return [f"// Behind what waits in registers: from {source}.", *lines]

    def _kept(self) -> list[str]:
        """Storage for the piece, or for as much of it as there is room for."""
        if not self.in_part:
            return self.waits.declarations(self.team, "PIECE")
        lines = self.waits.declarations(self.team, "HELD")
        most = held_of(self.site.schedule.threads, self.kept)
        return [
            "// As much of the piece as fits waits in registers; the rest is read again from L2.",
            f"constexpr int HELD = PIECE < {most} ? PIECE : {most};",
            *lines[1:],
        ]

    def _shared_by_all(self, accumulators: list[Accumulator]) -> list[str]:
        """Leave what this piece amounts to, wait, join what all pieces amount to."""
        lines = self._left()
        lines += ["// Nobody goes on before every block has left its part.", BARRIER]
        return [*lines, *self._gathered([self._accumulator(one) for one in accumulators])]

    def _left_behind(self) -> list[str]:
        """What is to be done at the end: the barrier's counter is the driver's own."""
        return []

    def _piece(self) -> list[str]:
        columns = self.frame.macros.text(self.space.columns)
        read = "read of memory" if self.in_part else "read"
        return [
            "// All blocks are on the card at once. Each keeps a piece of a row in registers, waits for the",
            f"// others, and goes on with its piece: one launch, one {read}, one write.",
            "const int begin = blockIdx.y * PIECE;",
            f"const int end = begin + PIECE < {columns} ? begin + PIECE : {columns};",
        ]


def together_kernel(site: Site, kernel: Kernel, name: str, kind: type[TogetherKernel]) -> Together | None:
    """The kernel, with vectors where sizes allow them; with a barrier where its kind does not suit.

    None for rows that need not wait: nothing a column is left to do, or nothing is read again.
    """
    site = replace(site, schedule=together(site.schedule))
    wide = site.schedule.width > 1
    if not kind(site, kernel, name, Partials(site), wide).tells:
        kind = TogetherKernel
    found = kind(site, kernel, name, Partials(site), wide)
    if not found.kept or found.passes[-1].accumulators:
        return None
    text = found.text()
    if text.width is not None and not text.width.is_possible:
        text = kind(site, kernel, name, found.partials, vector=False).text()
    most = (most_in_part if found.in_part else most_of_a_piece)(site.schedule.threads, found.kept)
    return Together(text, most, found.partials.all)
