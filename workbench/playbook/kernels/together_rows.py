"""Long rows that teams of blocks take in turns: each block keeps its piece of a row in shared memory.

Owns the loop over rows of a cooperative launch, how many teams there are, and how the blocks of one wait for
each other. While one team does, the others load and store; the next row follows the present one out.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.model import DTYPE_BYTES, Target
from workbench.playbook.analysis.row_passes import Accumulator, RowSpace, passes_of, waiting_loads
from workbench.playbook.ir.program import Buffer, Kernel, Program
from workbench.playbook.kernels.kernel_text import InTurns, KernelText, Limits, Site, block
from workbench.playbook.kernels.next_piece import KeptPiece
from workbench.playbook.kernels.next_row import copied_ahead
from workbench.playbook.kernels.split_launch import Partials
from workbench.playbook.kernels.together_kernel import TogetherKernel, together
from workbench.playbook.kernels.waits import Waits
from workbench.playbook.schedules.fitting import Cases, RowShape
from workbench.playbook.schedules.schedule import Schedule, split_from, split_team, split_threads

GROUPS = "{groups}"
"""Teams of blocks, as the grid calls them before the plan has a name for them."""
_BESIDE, _MOST_THREADS = 3, 2048
"""Blocks of a multiprocessor, each of another team as a rule; and its threads. 896 rows of 8.4 MB take an
H100 6.2 ms with two blocks that keep pieces in registers, 5.6 with three and shared memory; a copy 5.0."""


def blocks_of(threads: int) -> int:
    """Blocks of a multiprocessor that stay, each with its share of the shared memory."""
    return min(_BESIDE, _MOST_THREADS // threads)


def beside_piece(threads: int) -> int:
    """Bytes of shared memory that a block needs beside its piece: 1024 of the card's own, and what its
    reductions keep, which grows with its warps. A row of 2^20 floats has 56 pieces so, and seven teams."""
    return 1024 + 1792 * max(1, threads // 512)


def most_of_turn(target: Target, threads: int, bytes_a_column: int) -> int:
    """Columns that a block keeps."""
    room = target.shared_bytes_per_sm // blocks_of(threads) - beside_piece(threads)
    return room // (8 * bytes_a_column) * 8


def in_turns(
    schedule: Schedule, target: Target, rows: int, columns: int, bytes_a_column: int
) -> tuple[int, int] | None:
    """Teams and blocks of each, as the plan computes them; None where rows do not take turns."""
    asked = schedule.prefetch and schedule.split and schedule.join_grid and not schedule.join_words
    if not asked or not bytes_a_column or split_team(schedule) != "block" or columns <= split_from(schedule):
        return None
    threads = split_threads(schedule)
    if target.threads_per_sm < threads * blocks_of(threads):
        return None
    blocks = target.sm_count * blocks_of(threads)
    at_once = blocks // -(-columns // most_of_turn(target, threads, bytes_a_column))
    if not 1 < at_once < rows:
        return None
    groups = -(-rows // -(-rows // at_once))
    return groups, blocks // groups


def any_in_turns(
    schedule: Schedule, target: Target, shape: RowShape, bytes_a_column: int, cases: Cases
) -> bool:
    """True where some case's rows take turns."""
    sizes = [(shape.rows.at(case), shape.columns.at(case)) for case in cases]
    return any(in_turns(schedule, target, rows, columns, bytes_a_column) for rows, columns in sizes)


def bytes_in_turns(program: Program, kernel: Kernel) -> int:
    """Bytes of a column that blocks keep between meetings; 0 where nothing a column is left to do."""
    space = RowSpace(program.pool, kernel)
    passes = passes_of(space, kernel, single_pass=True)
    if passes[-1].accumulators:
        return 0
    loads = [load for load, _, _ in copied_ahead(space, waiting_loads(space, passes))]
    return sum(DTYPE_BYTES[program.buffers[load.buffer].dtype] for load in loads)


def ahead_of(schedule: Schedule) -> Schedule:
    """How a block computes its piece, and asks for the next row's."""
    threads = split_threads(schedule)
    own = replace(together(schedule), team="block", team_fit=False, fit=False, threads=threads, cluster=1)
    return replace(own, prefetch=True, promised=blocks_of(threads) * threads)


class TogetherRowsKernel(TogetherKernel):
    """The one launch, whose teams go on to the next row."""

    arriving = KeptPiece
    piece = "blockIdx.x"
    unrolled = "#pragma unroll 4"

    def __init__(
        self, site: Site, kernel: Kernel, name: str, partials: Partials, arrived: str, vector: bool
    ) -> None:
        super().__init__(site, kernel, name, partials, vector)
        self.in_part = False
        self.waits = Waits("reread", self.frame.vector)
        self.arrived = arrived
        self.met = 0
        self.meetings = sum(bool(step.accumulators) for step in self.passes)

    def _function(self) -> list[str]:
        """Storage and the first row's copies; then row after row."""
        body = list[str]()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
            if step.accumulators:
                body += self._shared_by_all(step.accumulators)
        body += ["__pipeline_commit();", *self._row_stores()]
        rows = self.frame.macros.text(self.space.rows)
        head = f"for (int row = blockIdx.y; row < {rows}; row += gridDim.y)"
        arrived = self.next_row.at_row_start()
        next_row = "const int next_row = row + gridDim.y;"
        return [
            *self.team.prologue,
            *self._piece(),
            *self.next_row.before_rows("blockIdx.y"),
            *block(head, [next_row, *self._pointer_lines, *arrived, *body]),
        ]

    def _grid(self) -> str:
        return f"(pieces, {GROUPS})"

    def _limits(self) -> Limits:
        return Limits(shared=f"chunk * {self.next_row.bytes_a_column}")

    def _shared_by_all(self, accumulators: list[Accumulator]) -> list[str]:
        """Leave what this piece amounts to, wait for the row's other blocks, join what all amount to."""
        self.frame.helpers.add("meet")
        lines = self._left()
        at = "row" if self.meetings == 1 else f"{self.meetings} * row + {self.met}"
        self.met += 1
        counter = self.frame.pointer(self.arrived)
        self.frame.written = (*self.frame.written, self.arrived)
        lines += ["// The blocks of this row wait for each other.", f"meet({counter} + {at}, pieces);"]
        return [*lines, *self._gathered([self._accumulator(one) for one in accumulators])]

    def _at(self, part: str) -> str:
        """Parts of a row lie together."""
        return f"row * pieces + {part}"

    def _piece(self) -> list[str]:
        columns = self.frame.macros.text(self.space.columns)
        return [
            "// Teams of blocks share a row each, every block with its piece of it in shared memory: one",
            "// launch, one read, one write. All blocks are on the card at once, and a team waits for its",
            "// own blocks only: while it does, those of other teams beside them load and store.",
            "const int begin = blockIdx.x * PIECE;",
            f"const int end = begin + PIECE < {columns} ? begin + PIECE : {columns};",
        ]


def rows_kernel(site: Site, kernel: Kernel, name: str, arrived: str) -> InTurns | None:
    """The kernel, with vectors where sizes allow them; None where nothing can be copied ahead."""
    site = replace(site, schedule=ahead_of(site.schedule))
    site.partials[arrived] = Buffer(arrived, "i32", (), "partial")
    partials = Partials(site)
    found = TogetherRowsKernel(site, kernel, name, partials, arrived, site.schedule.width > 1)
    if not found.next_row or found.passes[-1].accumulators:
        return None
    text: KernelText = found.text()
    if text.width is not None and not text.width.is_possible:
        found = TogetherRowsKernel(site, kernel, name, partials, arrived, vector=False)
        text = found.text()
    return InTurns(text, found.next_row.bytes_a_column, partials.all, arrived, found.meetings)
