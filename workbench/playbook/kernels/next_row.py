"""The next row on its way to shared memory while the present one, in registers, is computed.

Owns the shared memory that rows arrive in, the copies and the wait for them; row_kernel.py places them.
The asynchronous copy is that of the CUDA programming guide, "Asynchronous Data Copies", by its primitives.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.row_passes import RowSpace, Waiting
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.views import View, split
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.indexing import index_text, is_unit


@dataclass(frozen=True)
class _Arriving:
    """One load that is copied ahead."""

    buffer: str
    serial: int
    row_part: View
    column_part: View
    name: str
    """Pointer to where a row of it arrives."""


def copied_ahead(space: RowSpace, waiting: list[Waiting]) -> list[tuple[Load, View, View]]:
    """What of a row can be copied before it is computed, with where it lies from row to row and in a row."""
    found = []
    for wait in waiting:
        row_part, column_part = split(wait.load.view, space.rows, space.columns)
        if wait.first == 0 and not wait.load.lookups and is_unit(column_part):
            found.append((wait.load, row_part, column_part))
    return found


class NextRow:
    """Loads of a row kernel that are copied a row ahead; empty where there is nothing to copy."""

    meanwhile = "while this one is computed from registers"
    """How the comment on its storage goes on."""

    def __init__(self, frame: Frame, space: RowSpace, waiting: list[Waiting]) -> None:
        self._frame = frame
        self._space = space
        found = copied_ahead(space, waiting)
        found.sort(key=lambda entry: -self._bytes(entry[0].buffer))
        self.entries = tuple(
            _Arriving(load.buffer, load.serial, row, column, frame.names.new(f"{load.buffer}_next"))
            for load, row, column in found
        )

    def __bool__(self) -> bool:
        return bool(self.entries)

    def _bytes(self, buffer: str) -> int:
        return DTYPE_BYTES[self._frame.site.buffer(buffer).dtype]

    @property
    def bytes_a_column(self) -> int:
        """Shared memory that a column of one row takes."""
        return sum(self._bytes(entry.buffer) for entry in self.entries)

    def pointer(self, serial: int) -> str:
        """Where a load finds the row that has arrived; empty when it is not copied ahead."""
        return next((entry.name for entry in self.entries if entry.serial == serial), "")

    def place(self, column: str) -> str:
        """Where a column of the row lies, from there."""
        return column

    def before_rows(self, first_row: str = "blockIdx.x") -> list[str]:
        """Storage, the copy as a function of the row, and the first row's copy."""
        frame, macros = self._frame, self._frame.macros
        columns, rows = macros.text(self._space.columns), macros.text(self._space.rows)
        following = frame.names.new("following")
        lines = self._storage("The next row is", columns)
        scale = " * VEC" if frame.vector else ""
        head = f"for (int col = threadIdx.x{scale}; col < {columns}; col += THREADS{scale})"
        loop = block(head, self._copies(following))
        body = [*block(f"if ({following} < {rows})", loop), "__pipeline_commit();"]
        fetch = block(f"const auto fetch_row = [&](int {following})", body)
        fetch[-1] += ";"
        return [*lines, *fetch, f"fetch_row({first_row});"]

    def _storage(self, what: str, columns: str) -> list[str]:
        """Shared memory for so many columns of every load."""
        alignment = 16 if self._frame.site.schedule.width < 8 else 32
        lines = [
            f"// {what} copied to shared memory {self.meanwhile}.",
            f"extern __shared__ __align__({alignment}) char shared[];",
        ]
        at = 0
        for entry in self.entries:
            ctype = CTYPES[self._frame.site.buffer(entry.buffer).dtype]
            offset = f" + {at} * {columns}" if at else ""
            lines.append(f"{ctype}* {entry.name} = reinterpret_cast<{ctype}*>(shared{offset});")
            at += self._bytes(entry.buffer)
        return lines

    def _copies(self, row: str) -> list[str]:
        """The copy of one step: of the columns at ``col`` of a row."""
        frame, macros = self._frame, self._frame.macros
        frame.helpers.add("fetch")
        copies = []
        for entry in self.entries:
            parts = [index_text(entry.row_part, row, macros), index_text(entry.column_part, "col", macros)]
            source = " + ".join(
                [frame.pointer(entry.buffer), *(p.within(13) for p in parts if p.code != "0")]
            )
            width, place = "VEC" if frame.vector else "1", self.place("col")
            copies.append(f"fetch<{width}>({entry.name} + {place}, {source});")
        return copies

    def at_row_start(self) -> list[str]:
        """The wait; a thread reads what it copied itself, so that no barrier is needed."""
        return ["__pipeline_wait_prior(0);  // each thread reads what it copied itself: no barrier"]

    def after_first_pass(self) -> list[str]:
        """The row is in registers: its place is free for the next."""
        return ["fetch_row(row + gridDim.x);"]

    def around_step(self, number: int, last: bool) -> tuple[list[str], list[str]]:
        """What stands before and behind each step of the loop of a pass, which may be the last one; here a
        row arrives as a whole."""
        return [], []
