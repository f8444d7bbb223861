"""The next row on its way where blocks share a row: each block's piece of it, a vector at a time.

Owns when a vector is asked for: what a thread takes out of shared memory, to registers or for the last time,
makes room at once for the next row's. next_row.py has the storage and the copies.
"""

from __future__ import annotations

from workbench.playbook.kernels.fetching import BEFORE
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.next_row import NextRow


class NextPiece(NextRow):
    """Loads of a piece of a row that are copied a row ahead; columns ``begin`` to ``end``."""

    def place(self, column: str) -> str:
        """Counted from the piece's first column."""
        return f"({column} - begin)"

    @property
    def position(self) -> str:
        """The column of a thread's step ``i``."""
        at = "i * THREADS + threadIdx.x"
        return f"begin + ({at}) * VEC" if self._frame.vector else f"begin + {at}"

    def before_rows(self, first_row: str = "row") -> list[str]:
        """Storage, the copy of one step as a function of the row, and all steps of the first row."""
        rows = self._frame.macros.text(self._space.rows)
        lines = self._storage("The next row's piece is", "PIECE")
        steps = [
            f"const int col = {self.position};",
            *block(f"if (of_row < {rows} && col < end)", self._copies("of_row")),
            "__pipeline_commit();",
        ]
        fetch = block("const auto fetch_step = [&](int of_row, int i)", steps)
        fetch[-1] += ";"
        first = block("for (int i = 0; i < KEPT; ++i)", [f"fetch_step({first_row}, i);"])
        return [*lines, *fetch, "#pragma unroll", *first]

    def at_row_start(self) -> list[str]:
        """Nothing: each step waits for itself."""
        return []

    def after_first_pass(self) -> list[str]:
        """Nothing: each step has asked for the next row's."""
        return []

    def around_step(self, number: int, last: bool) -> tuple[list[str], list[str]]:
        """The wait for a step, and the request for the same step of the next row, in its place."""
        if not self or number != BEFORE:
            return [], []
        wait = "__pipeline_wait_prior(KEPT - 1);  // this step's; each thread reads what it copied itself"
        return [wait], ["fetch_step(next_row, i);"]


class KeptPiece(NextPiece):
    """A piece that stays in shared memory between the passes; each vector makes room when it is done with."""

    meanwhile = "and waits there between the passes"

    def before_rows(self, first_row: str = "row") -> list[str]:
        """Storage, the copy of one step as a function of row and column, and the first row's piece."""
        rows = self._frame.macros.text(self._space.rows)
        scale = " * VEC" if self._frame.vector else ""
        fetch = block(
            "const auto fetch_step = [&](int of_row, int col)",
            block(f"if (of_row < {rows})", self._copies("of_row")),
        )
        fetch[-1] += ";"
        head = f"for (int col = begin + threadIdx.x{scale}; col < end; col += THREADS{scale})"
        return [
            *self._storage("The piece of a row is", "PIECE"),
            *fetch,
            *block(head, [f"fetch_step({first_row}, col);"]),
            "__pipeline_commit();",
        ]

    def at_row_start(self) -> list[str]:
        """The wait for the whole piece: a thread reads what it copied itself, no barrier is needed."""
        return NextRow.at_row_start(self)

    def around_step(self, number: int, last: bool) -> tuple[list[str], list[str]]:
        """Behind the last use of a step its place is free for the next row's."""
        return [], ["fetch_step(next_row, col);"] if last else []
