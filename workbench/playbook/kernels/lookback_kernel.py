"""Running totals of few long rows: many blocks a row, in a single pass (Merrill and Garland, 2016).

Owns the text of a scan by decoupled look-back, and when the plan takes it. The tiles of a row are blocks of
their own; each tells the others its total as soon as it knows it. Nothing is read twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.model import Target
from workbench.playbook.analysis.scan_joins import PLACES, Join, in_rows
from workbench.playbook.ir.program import Buffer, Scan
from workbench.playbook.ir.sizes import Size
from workbench.playbook.kernels.kernel_text import KernelText, Site, StackedText, TiledText, block
from workbench.playbook.kernels.scan_kernel import ScanKernel, scan_kernel
from workbench.playbook.kernels.stacked_kernel import stacked_scan
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.names import Names

MOST_OF_A_TILE = 32768
"""Elements of a tile: half of the registers of a multiprocessor."""
MOST_TILES = 65536
"""Words that a kernel keeps for what its tiles tell one another."""
LOOK_BACK_NS = 1500.0
"""What a tile waits for the tiles before it: a total travels through L2. Not measured."""
_RESIDENT = 1024
"""Threads that a multiprocessor should have room for: the compiler keeps to 64 registers a thread."""


def tiles_of(schedule: Schedule, target: Target, rows: Size, columns: Size, sizes: Mapping[str, int]) -> int:
    """Tiles a row has at some sizes, as the plan computes it; 1 where a block takes the row alone."""
    length = columns.at(sizes)
    width = schedule.width if length % schedule.width == 0 else 1
    tiles = -(-length // (schedule.parts * schedule.threads * width))
    few = rows.at(sizes) < target.sm_count * (target.threads_per_sm // schedule.threads)
    return tiles if few else 1


def may_tile(scan: Scan) -> bool:
    """True for scans that look-back knows: of totals that are one number, along memory."""
    return in_rows(scan) and scan.op not in PLACES


def scan_step(site: Site, scan: Scan, name: str, names: Names) -> KernelText | TiledText | StackedText:
    """The kernel of a scan; with look-back or in pieces, both kernels, between which the plan chooses."""
    if site.schedule.scan_by != "thread" and not in_rows(scan):
        return stacked_scan(site, scan, name, names)
    plain = scan_kernel(site, scan, name)
    if not (site.schedule.look_back and may_tile(scan)):
        return plain
    own = names.new(f"{name}_tiled")
    vector = plain.width is not None
    tile = site.schedule.parts * site.schedule.threads
    if scan.value.dtype == "f32":
        text = _OneWordScan(site, scan, vector, ("", "")).text(own)
        return TiledText(text, plain, "", "", "f32", scan.rows, scan.columns, tile, MOST_TILES)
    scratch = Names([*site.program.buffers, *site.partials])
    flags, sums = scratch.new(f"{scan.buffer}_flags"), scratch.new(f"{scan.buffer}_tile_totals")
    site.partials[flags] = Buffer(flags, "i32", (), "partial")
    site.partials[sums] = Buffer(sums, scan.value.dtype, (), "partial")
    tiled = _TiledScan(site, scan, vector, (flags, sums)).text(own)
    return TiledText(tiled, plain, flags, sums, scan.value.dtype, scan.rows, scan.columns, tile)


class _TiledScan(ScanKernel):
    totals = "totals[part]"

    def __init__(self, site: Site, scan: Scan, vector: bool, scratch: tuple[str, str]) -> None:
        promised = _RESIDENT if site.schedule.parts * site.schedule.width <= 32 else 0
        site = replace(site, schedule=replace(site.schedule, promised=max(promised, site.schedule.threads)))
        super().__init__(site, scan, vector)
        self.scratch = scratch

    def text(self, name: str) -> KernelText:
        """A tile a block: load all of it, scan it, ask what came before, store."""
        self.frame.helpers.update(["block_scan_parts", *self.join.shuffles, *self.join.helpers])
        self.frame.scalars = ("tiles",)
        struct, start = self.join.struct, self.start
        ticket, before = self.numbered(name), self.looked_back(name)
        first = [f"{self.ctype} total = {start};", *self._guarded(self.own_totals()), "parts[part] = total;"]
        before_tile = self.join.entered(Text("tiles_before"), "") if self.join.is_pair else "tiles_before"
        last = [f"const {self.ctype} before = {struct}::join({before_tile}, parts[part]);"]
        body = [
            "// Tiles are numbered as blocks start: a tile only ever waits for blocks that run.",
            "__shared__ int ticket;",
            *block("if (threadIdx.x == 0)", [f"ticket = {ticket};"]),
            "__syncthreads();",
            *self._place(),
            f"constexpr int PARTS = {self.site.schedule.parts};",
            *self._declared(),
            *self._parts(first),
            f"const {self.ctype} tile_total = block_scan_parts<{struct}>(parts, {start});",
            *before,
            *self._parts([*last, *self._guarded(self.left())]),
        ]
        return self.frame.finish(name, body, f"{self.site.factor(self.scan.rows)} * tiles")

    def _declared(self) -> list[str]:
        if self.join.is_pair:
            return [
                f"{self.kept_type} {self.totals.replace('part', 'PARTS')}[{self.width}];",
                f"{self.ctype} parts[PARTS];",
            ]
        own = f"totals[PARTS][{self.width}], " if self.keeps_own else ""
        return [f"{self.ctype} {own}parts[PARTS];"]

    def numbered(self, name: str) -> str:
        """The number of a tile."""
        self.frame.written = (*self.frame.written, *self.scratch)
        return f"atomicAdd({self.frame.pointer(self.scratch[0])} + gridDim.x, 1)"

    def looked_back(self, name: str) -> list[str]:
        """What the tiles before this one amount to."""
        self.frame.helpers.add("look_back")
        flags, sums = (self.frame.pointer(buffer) for buffer in self.scratch)
        return [
            f"const {self.ctype} tiles_before = look_back<{self.join.struct}>(",
            f"    tile_total, {self.start}, tile, {flags} + ticket, {sums} + ticket,",
            f"    {sums} + gridDim.x + ticket",
            ");",
        ]

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


class _OneWordScan(_TiledScan):
    """A total of 32 bits travels in one word with its flag; the words are the kernel's own."""

    def text(self, name: str) -> KernelText:
        """The kernel, and the variables that are zero between its launches."""
        text = super().text(name)
        own = [
            "// What tiles tell one another, how many have begun, how many are done; zero between launches,",
            "// of which one may run at a time.",
            f"__device__ unsigned long long {name}_told[{MOST_TILES}];",
            f"__device__ unsigned int {name}_begun, {name}_done;",
        ]
        return replace(text, code="\n".join([*own, "", text.code]))

    def numbered(self, name: str) -> str:
        """Numbers begin at zero again after the last tile."""
        return f"atomicInc(&{name}_begun, gridDim.x - 1)"

    def looked_back(self, name: str) -> list[str]:
        """The words, and who clears them."""
        self.frame.helpers.add("look_back_at_once")
        struct, total, start = self.join.struct, "tile_total", self.start
        if self.join.is_pair:  # tiles tell one another the number itself, which is one word
            plain = Join(self.scan.op, "f64")
            self.frame.helpers.update(plain.helpers)
            struct, total, start = plain.struct, self.join.result(total).code, "-INFINITY"
        return [
            f"const float tiles_before = look_back<{struct}>(",
            f"    {total}, {start}, tile, {name}_told + ticket",
            ");",
            f"forget({name}_told, &{name}_done);",
        ]
