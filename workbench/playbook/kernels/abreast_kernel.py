"""Rows that lie side by side, each element far from the next: a block takes a bundle of them, a lane each.

Owns the layout in which such rows are read along what is next to each other in memory and still wait in
registers from pass to pass. bundle_kernel.py has the reductions that need no second pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES, DType
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Site, block
from workbench.playbook.kernels.row_kernel import RowKernel, Turned
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.indexing import index_text, is_unit

_AT_ONCE = 4
"""Steps of a warp that are under way together where columns of a matrix are reduced and not needed again. The
compiler takes 16 by itself; the 16 warps of a block would then ask for 256 rows of the matrix at a time."""
_MOST_IN_TILES = 24 * 1024
"""Bytes; a kernel has 48 KB that it need not ask for."""


@dataclass(frozen=True)
class AbreastTeam(TeamText):
    """The threads of a block that have one lane: one a warp."""

    @property
    def prologue(self) -> list[str]:
        """How the block is divided."""
        return [
            "// 32 rows that lie side by side a block, one a lane: a warp reads a column of all of them, and",
            "// warps take turns at the columns.",
            "constexpr int GROUPS = THREADS / 32;",
            "const int group = threadIdx.x / 32;",
        ]

    @property
    def first_row(self) -> str:
        """Row of a lane, if there are so many."""
        return "blockIdx.x * 32 + int(threadIdx.x) % 32"

    def join(self, op: str, value: str) -> str:
        """The result of a lane, known to each of its threads."""
        return f"join_groups<{op}>({value})"

    def helper(self, tree: bool) -> str:
        """Helper function that ``join`` calls."""
        return "join_groups"

    @property
    def leads(self) -> str:
        """The first warp, where it has rows."""
        return "group == 0 && !idle"


class AbreastKernel(RowKernel):
    """The kernel of rows that lie side by side."""

    end = "end"

    def __init__(self, site: Site, kernel: Kernel, name: str) -> None:
        super().__init__(site, kernel, name, vector=False)
        self.team = AbreastTeam("bundle", site.schedule.threads)
        self._tiles: list[str] = []
        self._tile_bytes = 0
        if len(self.passes) == 1 and not self.waits.entries:
            schedule = self.site.schedule
            self.site = replace(self.site, schedule=replace(schedule, items=_AT_ONCE * schedule.items))

    def _rows(self, body: list[str]) -> list[str]:
        rows, columns = (self.frame.macros.text(size) for size in (self.space.rows, self.space.columns))
        return [
            *self.team.prologue,
            f"const bool idle = {self.team.first_row} >= {rows};  // then it takes part in joining only",
            f"const int row = idle ? {rows} - 1 : {self.team.first_row};",
            f"const int end = idle ? 0 : {columns};",
            *self._tiles,
            *body,
        ]

    def turned_store(self, store: Store, stream: bool) -> Turned | None:
        """A result whose rows do not lie side by side is turned in shared memory and written along them."""
        row_part, column_part = self.split(store.view)
        if is_unit(row_part) or not is_unit(column_part) or not self._has_room(store.value.dtype):
            return None
        ctype = self.frame.element_type(store.buffer)
        element, tile = self._tile(store.buffer, ctype, store.view, store.value.dtype)
        value = self.frame.stored(store.buffer, f"{tile}[i % 2][threadIdx.x / GROUPS][across]")
        hinted = stream and self.frame.has_hints(store.buffer)
        line = f"__stcs(&{element}, {value});" if hinted else f"{element} = {value};"
        each = ("__syncthreads();", *block(self._in_range(), [line]))
        return Turned(f"{tile}[i % 2][threadIdx.x % 32][group]", each)

    def turned_load(self, load: Load) -> Turned | None:
        """An input whose rows do not lie side by side is read along them and turned in shared memory."""
        row_part, column_part = self.split(load.view)
        across = is_unit(row_part) or row_part.is_constant or not is_unit(column_part)
        if across or not self.waits.in_registers or not self._has_room(load.dtype):
            return None
        arrived = self.frame.names.new(f"{load.buffer}_arrived")
        ctype = f"const {self.frame.element_type(load.buffer)}"
        element, tile = self._tile(load.buffer, ctype, load.view, load.dtype)
        line = f"{arrived}[i] = {self.frame.value(load, element).code};"
        reads = block("for (int i = 0; i < KEPT; ++i)", block(self._in_range(), [line]))
        each = (f"{tile}[i % 2][threadIdx.x / GROUPS][across] = {arrived}[i];", "__syncthreads();")
        ahead = (f"{CTYPES[load.dtype]} {arrived}[KEPT];", "#pragma unroll", *reads)
        return Turned(f"{tile}[i % 2][threadIdx.x % 32][group]", each, ahead)

    def _has_room(self, dtype: DType) -> bool:
        """True while tiles leave most of the static shared memory to the joining of results."""
        size = 2 * 32 * (self.team.threads // 32 + 1) * DTYPE_BYTES[dtype]
        self._tile_bytes += size if (fits := self._tile_bytes + size <= _MOST_IN_TILES) else 0
        return fits

    def _tile(self, buffer: str, ctype: str, view: View, dtype: DType) -> tuple[str, str]:
        """An element of a buffer by row ``there`` and column ``at``, and the tile it goes through."""
        row_part, column_part = self.split(view)
        frame = self.frame
        tile, row = frame.names.new(f"{buffer}_tile"), frame.names.new(f"{buffer}_there")
        if not self._tiles:
            self._tiles = [
                "// What lies along the rows goes through tiles that are filled one way and emptied the",
                "// other, two in turns: one may be filled while the other is emptied.",
                "const int there = blockIdx.x * 32 + int(threadIdx.x) / GROUPS;",
                "const int across = threadIdx.x % GROUPS;",
            ]
        self._tiles += [
            f"__shared__ {CTYPES[dtype]} {tile}[2][32][GROUPS + 1];",
            f"{ctype}* {row} = {frame.pointer(buffer)} + {index_text(row_part, 'there', frame.macros).code};",
        ]
        return f"{row}[{index_text(column_part, 'at', frame.macros).code}]", tile

    def _in_range(self) -> str:
        rows, columns = (self.frame.macros.text(size) for size in (self.space.rows, self.space.columns))
        return f"if (const int at = i * GROUPS + across; there < {rows} && at < {columns})"
