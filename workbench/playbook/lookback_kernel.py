"""Running totals of few long rows: many blocks a row, in a single pass (Merrill and Garland, 2016).

Owns the text of a scan by decoupled look-back, and when the plan takes it. The tiles of a row are blocks of
their own; each tells the others its total as soon as it knows it. Nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.model import Target
from workbench.playbook.kernel_text import KernelText, Site, TiledText, block
from workbench.playbook.names import Names
from workbench.playbook.program import Buffer, Scan
from workbench.playbook.scan_joins import PLACES
from workbench.playbook.scan_kernel import ScanKernel, in_rows, scan_kernel
from workbench.playbook.schedule import Schedule
from workbench.playbook.sizes import Size

PARTS = 4
"""Vectors of a thread in one tile, all in flight together."""
LOOK_BACK_NS = 1500.0
"""What a tile waits for the tiles before it: a flag and a total travel through L2. Not measured."""


def tiles_of(schedule: Schedule, target: Target, rows: Size, columns: Size, sizes: Mapping[str, int]) -> int:
    """Tiles a row has at some sizes, as the plan computes it; 1 where a block takes the row alone."""
    length = columns.at(sizes)
    width = schedule.width if length % schedule.width == 0 else 1
    tiles = -(-length // (PARTS * schedule.threads * width))
    few = rows.at(sizes) < target.sm_count * (target.threads_per_sm // schedule.threads)
    return tiles if few else 1


def may_tile(scan: Scan) -> bool:
    """True for scans that look-back knows: of totals that are one number, along memory."""
    return in_rows(scan) and scan.op not in PLACES


def scan_step(site: Site, scan: Scan, name: str, names: Names) -> KernelText | TiledText:
    """The kernel of a scan; with look-back, both kernels, between which the plan chooses."""
    plain = scan_kernel(site, scan, name)
    if not (site.schedule.look_back and may_tile(scan)):
        return plain
    scratch = Names([*site.program.buffers, *site.partials])
    flags, sums = scratch.new(f"{scan.buffer}_flags"), scratch.new(f"{scan.buffer}_tile_totals")
    site.partials[flags] = Buffer(flags, "i32", (), "partial")
    site.partials[sums] = Buffer(sums, scan.value.dtype, (), "partial")
    own = names.new(f"{name}_tiled")
    vector = plain.width is not None
    tiled = _TiledScan(site, scan, vector, (flags, sums)).text(own)
    return TiledText(
        tiled, plain, flags, sums, scan.value.dtype, scan.rows, scan.columns, PARTS * site.schedule.threads
    )


class _TiledScan(ScanKernel):
    totals = "totals[part]"

    def __init__(self, site: Site, scan: Scan, vector: bool, scratch: tuple[str, str]) -> None:
        super().__init__(site, scan, vector)
        self.scratch = scratch

    def text(self, name: str) -> KernelText:
        """A tile a block: load all of it, scan it, ask what came before, store."""
        self.need_block_scan()
        self.frame.helpers.add("look_back")
        flags, sums = (self.frame.pointer(name) for name in self.scratch)
        self.frame.written = (*self.frame.written, *self.scratch)
        self.frame.scalars = ("tiles",)
        struct, start = self.join.struct, self.start
        own, whole = f"{sums} + ticket", f"{sums} + gridDim.x + ticket"
        first = [f"{self.ctype} total = {start};", *self._guarded(self.own_totals()), "parts[part] = total;"]
        last = [f"const {self.ctype} before = {struct}::join(tiles_before, parts[part]);"]
        body = [
            "// Tiles are numbered as blocks start: a tile only ever waits for blocks that run.",
            "__shared__ int ticket;",
            *block("if (threadIdx.x == 0)", [f"ticket = atomicAdd({flags} + gridDim.x, 1);"]),
            "__syncthreads();",
            *self._place(),
            f"constexpr int PARTS = {PARTS};",
            f"{self.ctype} totals[PARTS][{self.width}], parts[PARTS];",
            *self._parts(first),
            f"{self.ctype} carry = {start};",
            "#pragma unroll",
            *block(
                "for (int part = 0; part < PARTS; ++part)",
                [f"parts[part] = block_scan<{struct}>(parts[part], {start}, carry);"],
            ),
            f"const {self.ctype} tiles_before = look_back<{struct}>(",
            f"    carry, {start}, tile, {flags} + ticket, {own}, {whole}",
            ");",
            *self._parts([*last, *self._guarded(self.left())]),
        ]
        return self.frame.finish(name, body, f"{self.site.size(self.scan.rows)} * tiles")

    def _place(self) -> list[str]:
        if self.scan.rows.is_one:
            return ["const int tile = ticket;"]
        return ["const int row = ticket / tiles, tile = ticket % tiles;"]

    def _parts(self, body: list[str]) -> list[str]:
        vector = " * VEC" if self.frame.vector else ""
        at = f"((tile * PARTS + part) * THREADS + threadIdx.x){vector}"
        lines = [f"const int col = {self.turned(at)};", *body]
        return ["#pragma unroll", *block("for (int part = 0; part < PARTS; ++part)", lines)]

    def _guarded(self, body: list[str]) -> list[str]:
        return block(f"if ({self.inside})", body)
