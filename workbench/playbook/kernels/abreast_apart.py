"""Rows that lie side by side, where no vector of them does: a lane has VEC rows, 32 places apart.

Owns the layout of matrices whose lines begin anywhere (4095 columns, images of 7 x 7): a warp asks for VEC
times 32 neighbours, one load of 128 bytes after the other, where a row a lane would ask for the first of them
and then for those of other lines. On an H100, sums down 4096 lines of 4095 take 3132 us with a row a lane and
four lines on their way, 2854 with four rows and one line (docs/notes/2026-11-28-odd-lines.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.abreast_vectors import (
    MOST_JOINED,
    AbreastVectors,
    VectorLoop,
    VectorTeam,
    for_each,
)
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import statement

_AT_ONCE = 4
"""Loads of a thread that are under way together. With eight, 3071 us instead of 2854: a warp that is ahead of
the others reads where nobody else does."""


@dataclass(frozen=True)
class _ApartTeam(VectorTeam):
    """The threads of a block that have one lane, and so its VEC rows."""

    rows: int = 1

    @property
    def prologue(self) -> list[str]:
        """How the block is divided."""
        return [
            "// 32 * VEC rows that lie side by side a block, every 32nd a lane's: a warp reads a column of",
            "// all of them, and warps take turns at the columns.",
            f"constexpr int VEC = {self.rows}, GROUPS = THREADS / 32;",
            "const int group = threadIdx.x / 32;",
            "const int first = blockIdx.x * 32 * VEC + int(threadIdx.x) % 32;",
        ]

    @property
    def leads(self) -> str:
        """The first warp."""
        return "group == 0"


class AbreastApart(AbreastVectors):
    """The kernel of rows that lie side by side, in no vectors."""

    row_at = "row[k]"

    def __init__(self, site: Site, kernel: Kernel, name: str) -> None:
        super().__init__(site, kernel, name)
        self.frame.vector = False
        self.frame.divisors.discard(self.space.rows)
        schedule = site.schedule
        self.team = _ApartTeam("bundle", schedule.threads, rows=schedule.width)
        lines = max(1, _AT_ONCE // schedule.width) * schedule.items
        self.waits = replace(self.waits, templated=False)
        if not self.waits.in_registers:
            self.unrolled = f"#pragma unroll {lines}"
        self._rows_end = self.frame.macros.text(self.space.rows)

    def _rows(self, body: list[str]) -> list[str]:
        rows, columns = self._rows_end, self.frame.macros.text(self.space.columns)
        last = f"row[k] = {self.has_row} ? first + 32 * k : {rows} - 1;"
        return [
            *self.team.prologue,
            "int row[VEC];  // beyond the end the last one, which is read and left as it is",
            *for_each([last]),
            f"const int end = first < {rows} ? {columns} : 0;  // else it takes part in joining only",
            *body,
        ]

    @property
    def has_row(self) -> str:
        """True of row ``k`` of a lane."""
        return f"first + 32 * k < {self._rows_end}"

    def _grid(self) -> str:
        return f"cdiv({self.site.size(self.space.rows)}, {32 * self.site.schedule.width})"

    def row_pointer(self, buffer: str, row_view: View) -> str:
        """A pointer to the first element of row ``k`` of a lane."""
        index = index_text(row_view, self.row_at, self.frame.macros)
        pointer = self.frame.pointer(buffer)
        if index.code == "0":
            return pointer
        key = (buffer, row_view)
        if key not in self._pointers:
            name = self.frame.names.new(f"{pointer}_row")
            const = "" if buffer in self.frame.written else "const "
            self._pointer_lines.append(f"{const}{self.frame.element_type(buffer)}* {name}[VEC];")
            self._pointer_lines += for_each([f"{name}[k] = {pointer} + {index.code};"])
            self._pointers[key] = f"{name}[k]"
        return self._pointers[key]

    def _walk(self, number: int, row_values: dict[int, Text]) -> VectorLoop:
        return _ApartLoop(self, number, row_values)

    def _row_stores(self) -> list[str]:
        lines = self._stored_rows()
        if not lines:
            return []
        each = for_each(block(f"if ({self.has_row})", lines))
        return [*self._flush(), *block(f"if ({self.team.leads})", each)]


class _ApartLoop(VectorLoop):
    """The walk of a warp over its turns at the columns, element by element."""

    kernel: AbreastApart

    def _load_vector(self, load: Load) -> None:
        """Its elements are read one by one, where they are used."""

    def _store(self, store: Store) -> None:
        row_part, column_part = self.kernel.split(store.view)
        schedule = self.kernel.site.schedule
        value = self.frame.stored(store.buffer, self._scope.text(store.value).code)
        column = index_text(column_part, "col", self.frame.macros)
        element = f"{self.kernel.row_pointer(store.buffer, row_part)}[{column.code}]"
        hinted = (schedule.stream or schedule.stream_stores) and self.frame.has_hints(store.buffer)
        line = f"__stcs(&{element}, {value});" if hinted else f"{element} = {value};"
        self._scope.lines += block(f"if ({self.kernel.has_row})", statement(line))


def abreast_apart(site: Site, kernel: Kernel, name: str) -> KernelText | None:
    """Write it; None where too much would be joined."""
    width = site.schedule.width
    while width > 1:
        narrower = replace(site, schedule=replace(site.schedule, width=width))
        written = AbreastApart(narrower, kernel, name)
        text = written.text()
        if written.joined_bytes <= MOST_JOINED:
            return text
        width //= 2
    return None
