"""What a row's result needs beside its reductions: a label, and the value that it points to.

Owns when each of them is asked for. Behind the joins of a row its threads would wait for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.playbook.ir.expr import Load, Reduction, unguarded, walk
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.indexing import index_text

if TYPE_CHECKING:
    from workbench.playbook.kernels.row_kernel import RowKernel

_MANY_ROWS = 4
"""Rows of a block from which an index is there a row ahead (a guess): at its first row it waits for one."""


class RowNeeds:
    """The loads of one kernel's rows.

    A warp asks for all of them before its walk. So does a block, but for what is looked up: its warps would
    begin to walk when the index has come. They ask when they have walked, and join meanwhile; or before a
    last step, so that both are on their way together. A block that stays for many rows has the index of a
    row a row ahead.
    """

    def __init__(self, kernel: RowKernel) -> None:
        self._kernel = kernel
        self._first: list[str] = []

    def before_walk(self) -> list[str]:
        """What is asked for at the start of a row."""
        wanted = self._wanted()
        if self._kernel.team.kind == "block":
            looked_up = [load for load in wanted if load.lookups]
            lines = self._ahead(looked_up) if looked_up and self._stays() else []
            return [*lines, *self._named([load for load in wanted if lines or not load.lookups])]
        return self._named(wanted)

    def behind_walk(self) -> list[str]:
        """What is asked for when all columns are read, or are on their way."""
        return self._named(self._wanted())

    def goes_with_last_step(self) -> bool:
        """True where a block has several steps of a row behind it by then, so that an index has come."""
        kernel, schedule = self._kernel, self._kernel.site.schedule
        cases = kernel.site.cases[: kernel.site.declared]
        least = min((kernel.space.columns.at(case) for case in cases), default=0)
        return kernel.team.lanes == "THREADS" and least >= schedule.threads * schedule.width * schedule.items

    def before_rows(self) -> list[str]:
        """The first row's indices, where those of later rows are there a row ahead."""
        return self._first

    def _wanted(self) -> list[Load]:
        """Loads of the row's results that no reduction has to be known for, and that have no name yet."""
        kernel = self._kernel
        if kernel.team.kind not in ("warp", "block") or kernel.begin:
            return []
        found = {e.serial: e for root in kernel.row_roots() for e in unguarded(root) if isinstance(e, Load)}
        wanted = [found[serial] for serial in sorted(found.keys() - kernel.rows.bound.keys())]
        return [load for load in wanted if not any(isinstance(part, Reduction) for part in walk(load))]

    def _named(self, loads: list[Load]) -> list[str]:
        rows = self._kernel.rows
        for load in loads:
            rows.prepare(load.operands)
            if load.serial not in rows.bound:
                rows.name(load)
        lines, rows.lines = rows.lines, []
        return lines

    def _stays(self) -> bool:
        """True where a block has many rows at every declared shape."""
        kernel = self._kernel
        cases = kernel.site.cases[: kernel.site.declared]
        each = [kernel.space.rows.at(case) / kernel.blocks_at(case) for case in cases]
        return kernel.site.schedule.persistent and min(each, default=0) >= _MANY_ROWS

    def _ahead(self, looked_up: list[Load]) -> list[str]:
        """This row's indices have come with the row before; the next row's are asked for."""
        kernel, frame = self._kernel, self._kernel.frame
        parts = [part for load in looked_up for index, _ in load.lookups for part in walk(index)]
        indices = {part.serial: part for part in parts if isinstance(part, Load)}
        if not indices or any(index.lookups for index in indices.values()):
            return []
        own, asked = list[str](), list[str]()
        for serial in sorted(indices.keys() - kernel.rows.bound.keys()):
            load = indices[serial]
            name, there = frame.names.new(f"{load.buffer}_next"), frame.names.new(f"{load.buffer}_value")
            first, following = (
                frame.value(load, frame.element(load.buffer, index_text(load.view, row, frame.macros)))
                for row in (kernel.team.first_row, "next_row")
            )
            own.append(f"const {CTYPES[load.dtype]} {there} = {name};")
            asked.append(f"{name} = {following.code};")
            self._first.append(f"{CTYPES[load.dtype]} {name} = {first.code};")
            kernel.rows.bound[serial] = frame.value(load, there)
        self._first.insert(0, "// The index of a row's look-up is there a row ahead: no walk waits for it.")
        rows = frame.macros.text(kernel.space.rows)
        next_row = "const int next_row = row + gridDim.x;"
        return [*own, next_row, *block(f"if (next_row < {rows})", asked)]
