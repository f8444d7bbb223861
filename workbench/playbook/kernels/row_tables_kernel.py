"""Kernels whose threads read the few elements that a row's columns are made of once, into registers.

Owns the text of such a kernel; row_tables.py says which kernels it is made of. Rows lie side by side, so that
the threads of a warp read neighbours.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.playbook.analysis.row_tables import MOST_COLUMNS, Table, table_of, tables_of
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Limits, Site, block, frame_for
from workbench.playbook.kernels.row_kernel import RowKernel, Turned
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.indexing import index_text


def row_tables_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of all stores that the kernels in ``kernel.tables`` have."""
    schedule = replace(site.schedule, team="thread", cache="reread", width=1, items=1, fit=False)
    site = replace(site, schedule=schedule)
    columns = list(dict.fromkeys(one.stores[0].columns for one in kernel.tables))
    for size in columns:
        site.macros.name(size, "COLS")
    site.macros.name(kernel.stores[0].rows, "ROWS")
    frame = frame_for(site, kernel, vector=False)
    found = tables_of(site.program.pool, kernel.tables)
    tables = {one: frame.names.new(f"{one.buffer}_of_row") for one in found}
    parts = [_Part(site, one, name, (frame, tables)) for one in kernel.tables]
    filled = _filled(parts[0], tables)
    bodies = [part.body() for part in parts]
    pointers = [line for part in parts for line in part.pointer_lines]
    return parts[0].whole([*pointers, *filled, *(line for body in bodies for line in body)], columns)


class _Part(RowKernel):
    """One of the kernels, with a row for each thread; all of them are in the same function."""

    unrolled = "#pragma unroll"
    """All columns: so each knows the registers of what it reads."""

    def __init__(self, site: Site, kernel: Kernel, name: str, shared: tuple[Frame, dict[Table, str]]) -> None:
        frame, self._tables = shared
        super().__init__(site, kernel, name, vector=False, frame=frame)

    def whole(self, lines: list[str], columns: list[Size]) -> KernelText:
        """The function, with these lines for each row."""
        open_ = [self.site.size(size) for size in columns if size.number is None]
        fits = " and ".join(f"0 < {size} <= {MOST_COLUMNS}" for size in open_)
        otherwise = "rows that a thread has all columns of must be short"
        limits = Limits("", fits, otherwise) if open_ else Limits()
        return self.frame.finish(self.name, self._rows(lines), self._grid(), limits)

    @property
    def pointer_lines(self) -> list[str]:
        """Where the row begins in what is read."""
        return self._pointer_lines

    def turned_load(self, load: Load) -> Turned | None:
        """An element of the thread's table."""
        table = table_of(self.space, load)
        place = index_text(table.place(self.split(load.view)[1]), "col", self.frame.macros)
        return Turned(f"{self._tables[table]}[{place.code}]", ())


def _filled(part: _Part, tables: dict[Table, str]) -> list[str]:
    """Statements that read all tables."""
    frame, lines = part.frame, list[str]()
    for table, name in tables.items():
        size = frame.macros.text(table.size)
        pointer = part.row_pointer(table.buffer, table.row)
        element = f"{pointer}[{index_text(View(table.axes), 'i', frame.macros).code}]"
        streamed = part.site.schedule.stream and not table.row.is_constant and frame.has_hints(table.buffer)
        read = f"__ldcs(&{element})" if streamed else element
        value = frame.value_of(table.buffer, read, table.dtype)
        fill = block(f"for (int i = 0; i < {size}; ++i)", [f"{name}[i] = {value.code};"])
        lines += [f"{CTYPES[table.dtype]} {name}[{size}];", "#pragma unroll", *fill]
    return [
        "// What the columns of the row are made of is read once and stays in registers: with all loops",
        "// written out by the compiler, each element has one of its own.",
        *lines,
    ]
