"""Kernels of running totals: a block or some lanes scan a row tile by tile, or every thread one of its own.

Owns their text. A block, or lanes of a warp where rows are short, where a row's columns lie next to each
other, so that threads read neighbours; a thread a row where the rows do. Never decides what is a scan: that
is scans.py. Several blocks a row are lookback_kernel.py's, blocks that have rows side by side
stacked_kernel.py's.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.analysis.scan_joins import PLACES, Join, in_rows
from workbench.playbook.analysis.scan_lanes import lanes_of
from workbench.playbook.analysis.scan_tail import is_before, is_total
from workbench.playbook.ir.expr import Expr, Index, Load, unguarded, walk
from workbench.playbook.ir.program import Kernel, Scan, Store
from workbench.playbook.ir.views import View, split
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import Scope, statement

UNROLLED = 8
"""Steps of a thread's own scan whose loads are in flight together."""
_OWN = (
    "row",
    "col",
    "total",
    "totals",
    "carry",
    "before",
    "earlier",
    "begin",
    "tile",
    "tiles",
    "ticket",
    "part",
    "lane",
)
"""Names of the kernel's own, which no parameter may have."""


def scan_kernel(site: Site, scan: Scan, name: str) -> KernelText:
    """Write the kernel of a scan by one team a row."""
    site.macros.name(scan.rows, "ROWS")
    site.macros.name(scan.columns, "COLS")
    if not in_rows(scan):
        return ScanKernel(site, scan, vector=False).by_threads(name)
    vector = site.schedule.width > 1
    text = ScanKernel(site, scan, vector).in_tiles(name)
    possible = text.width is None or text.width.is_possible
    return text if possible else ScanKernel(site, scan, vector=False).in_tiles(name)


def who_scans(lanes: int) -> str:
    """Whose row it is, in words for a comment."""
    if lanes in (1, 32):
        return "A thread scans a row of its own" if lanes == 1 else "A warp scans a row"
    return f"{lanes} lanes scan a row, {32 // lanes} rows a warp"


class ScanKernel:
    """The kernel being written."""

    totals = "totals"
    """The array that holds the totals of a thread's own columns; or their values, where totals are pairs."""

    def __init__(self, site: Site, scan: Scan, vector: bool) -> None:
        self.scan = scan
        own = Store(scan.buffer, scan.value, scan.view, scan.rows, scan.columns, "full")
        self.stores = (*((own,) if scan.kept else ()), *scan.tail)
        self.frame: Frame = frame_for(site, Kernel([own, *scan.tail]), vector)
        for word in _OWN:
            self.frame.names.new(word)
        self.site = site
        self.join = Join(scan.op, scan.value.dtype, site.schedule.fast_math)
        if self.join.is_pair:
            self.totals = self.totals.replace("totals", self.frame.names.new("values"))
        self.ctype = self.join.ctype
        self.start = self.join.start
        self.columns = self.frame.macros.text(scan.columns)
        self.rows = self.frame.macros.text(scan.rows)
        self.packs: dict[int, str] = {}
        self.made: dict[str, str] = {}
        """Buffers whose elements the kernel has made itself, and where it has that of the column at hand."""
        parts = [part for store in scan.tail for part in walk(store.value) if isinstance(part, Load)]
        self.exclusive = any(is_before(part, scan) for part in parts)
        self.inclusive = scan.kept or any(is_total(part, scan) for part in parts)

    # -------------------------------------------------------------------------------- a thread a row

    def by_threads(self, name: str) -> KernelText:
        """Rows lie next to each other: a thread each, so that neighbours read neighbours."""
        order = f"int col = {self.columns} - 1; col >= 0; --col"
        if not self.scan.backwards:
            order = f"int col = 0; col < {self.columns}; ++col"
        self.frame.helpers.update(self.join.helpers if self.scan.op not in ("sum", "prod") else ())
        scope = self._scope("col", [self.scan.value])
        step = self.join.step(scope.text(self.scan.value), "col")
        earlier = [f"const {self.ctype} earlier = total;"] if self.exclusive else []
        body = [
            "// One thread a row of its own: neighbours read neighbours, step after step.",
            "const int row = blockIdx.x * THREADS + threadIdx.x;",
            *block(f"if (row >= {self.rows})", ["return;"]),
            f"{self.ctype} total = {self.start};",
            f"#pragma unroll {UNROLLED}",
            *block(f"for ({order})", [*scope.lines, *earlier, step, *self._scalar_stores()]),
        ]
        rows = self.site.size(self.scan.rows)
        return self.frame.finish(name, body, f"cdiv({rows}, {self.site.schedule.threads})")

    def _scalar_stores(self) -> list[str]:
        """Every store of the column at hand, whose total is ``total``."""
        scope = self._scope("col", [store.value for store in self.scan.tail])
        lines = []
        for store in self.stores:
            element = self.frame.element(store.buffer, self._index(store.view, "col"))
            lines += statement(f"{element} = {self._value(store, scope)};")
        return [*scope.lines, *lines]

    def _value(self, store: Store, scope: Scope) -> str:
        """What a store writes."""
        plain = store.buffer == self.scan.buffer
        code = self.join.result("total").code if plain else scope.text(store.value).code
        return self.frame.stored(store.buffer, code)

    # -------------------------------------------------------------------------------- a row in tiles

    def in_tiles(self, name: str) -> KernelText:
        """A block a row, or a few lanes: each thread scans a few columns, they all their totals."""
        lanes = lanes_of(self.site.schedule, self.scan, self.site.declared_sizes)
        team = TeamText("warp" if lanes else "block", self.site.schedule.threads, lanes_of_warp=lanes or 32)
        by_vectors = " * VEC" if self.frame.vector else ""
        loop = [
            f"const int col = {self.turned(f'begin + {team.lane}{by_vectors}')};",
            *([f"{self.kept_type} {self.totals}[{self.width}];"] if self.keeps_own else []),
            f"{self.ctype} total = {self.start};",
            *block(f"if ({self.inside})", self.own_totals()),
            f"const {self.ctype} before = {self.scanned_by(lanes)};",
            *block(f"if ({self.inside})", self.left()),
        ]
        body = [
            *team.prologue,
            *self._whose_row(team),
            f"{self.ctype} carry = {self.start};",
            *block(f"for (int begin = 0; begin < {self.columns}; begin += {team.lanes}{by_vectors})", loop),
        ]
        rows, each = self.site.size(self.scan.rows), team.rows_per_block
        return self.frame.finish(name, body, rows if each == 1 else f"cdiv({rows}, {each})")

    def scanned_by(self, lanes: int) -> str:
        """What comes before a thread's own columns."""
        return self.scanned(self.join, lanes, "total", "carry")

    def scanned(self, join: Join, lanes: int, total: str, carry: str) -> str:
        """The same for totals of any scan: by so many lanes, or by a block where there are none."""
        if not lanes:
            self.frame.helpers.update(["block_scan", *join.shuffles, *join.helpers])
            return f"block_scan<{join.struct}>({total}, {join.start}, {carry})"
        self.frame.helpers.update(["lane_scan", *join.lane_shuffles, *join.helpers])
        return f"lane_scan<{join.struct}, {lanes}>({total}, {carry})"

    def _whose_row(self, team: TeamText) -> list[str]:
        if team.kind == "block":
            comment = "// One block scans a row, tile by tile; carry is the total of the tiles before."
            return [comment, *([] if self.scan.rows.is_one else [f"const int row = {team.first_row};"])]
        return [
            f"// {who_scans(team.lanes_of_warp)}: no barrier, however many rows a block has.",
            f"const int row = {team.first_row};",
            *block(f"if (row >= {self.rows})", ["return;"]),
        ]

    @property
    def width(self) -> str:
        """Columns of a thread."""
        return "VEC" if self.frame.vector else "1"

    def turned(self, at: str) -> str:
        """The first of a thread's columns, counted from the end where the scan runs backwards."""
        return f"{self.columns} - {self.width} - ({at})" if self.scan.backwards else at

    @property
    def inside(self) -> str:
        """Condition of a thread that has columns."""
        return "col >= 0" if self.scan.backwards else f"col < {self.columns}"

    @property
    def keeps_own(self) -> bool:
        """False where a thread's one column counts only for those behind it."""
        return self.inclusive or self.frame.vector

    @property
    def kept_type(self) -> str:
        """Type of what a thread keeps of its columns: totals, or the values where totals are pairs."""
        return CTYPES[self.scan.value.dtype] if self.join.is_pair else self.ctype

    def own_totals(self) -> list[str]:
        """The thread's own columns, each with those before it."""
        if self.join.is_pair:
            return self._own_values()
        if not self.frame.vector:
            scope = self._scope("col", [self.scan.value])
            value = scope.text(self.scan.value)
            kept = f"{self.totals}[0] = " if self.keeps_own else ""
            return [*scope.lines, f"{kept}total = {self.join.entered(value, 'col')};"]
        lines = self._loaded([self.scan.value])
        scope = self._scope("(col + k)", [self.scan.value])
        step = self.join.step(scope.text(self.scan.value), "col + k")
        inner = [*scope.lines, step, f"{self.totals}[k] = total;"]
        return [*lines, "#pragma unroll", *block(f"for ({self._each()})", inner)]

    def _own_values(self) -> list[str]:
        """The values of the thread's own columns, and their total."""
        self.frame.helpers.add("logsum_of_values")
        lines = self._loaded([self.scan.value]) if self.frame.vector else []
        scope = self._scope("(col + k)" if self.frame.vector else "col", [self.scan.value])
        value = scope.text(self.scan.value).code
        each = [*scope.lines, f"{self.totals}[{'k' if self.frame.vector else '0'}] = {value};"]
        loop = ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", each)]
        return [*lines, *(loop if self.frame.vector else each), f"total = logsum_of({self.totals});"]

    def _each(self) -> str:
        return "int k = VEC - 1; k >= 0; --k" if self.scan.backwards else "int k = 0; k < VEC; ++k"

    def _loaded(self, roots: Sequence[Expr]) -> list[str]:
        """Loads of vectors that the columns at hand read."""
        lines = []
        self.packs = {}
        self.frame.divisors.add(self.scan.columns)
        loads = [leaf for root in roots for leaf in unguarded(root) if isinstance(leaf, Load)]
        for load in loads:
            if self._is_made(load) or load.lookups or load.serial in self.packs:
                continue
            row, column = split(load.view, self.scan.rows, self.scan.columns)
            if not is_unit(column):
                continue
            pack = self.frame.names.new(f"{load.buffer}_pack")
            self.packs[load.serial] = f"{pack}.at[k]"
            self.frame.helpers.add("load")
            lines.append(f"const auto {pack} = load<VEC>({self._address(load.buffer, load.view)});")
            self.frame.use_vector(load.buffer, column)
            self.frame.use_rows(row)
        return lines

    def _is_made(self, load: Load) -> bool:
        return load.buffer in self.made or is_total(load, self.scan) or is_before(load, self.scan)

    # -------------------------------------------------------------------------------- what is stored

    def left(self) -> list[str]:
        """The totals with what came before them, and what is computed from them, into memory."""
        if not self.frame.vector:
            return [*self._resumed(), *self._joined("0"), *self._scalar_stores()]
        wanted = [store.value for store in self.scan.tail]
        lines = self._loaded(wanted)
        scope = self._scope("(col + k)", wanted)
        inner: list[str] = []
        after: list[str] = []
        for store in self.stores:
            value = self._value(store, scope)
            row, own = split(store.view, self.scan.rows, self.scan.columns)
            if not is_unit(own):
                element = self.frame.element(store.buffer, self._index(store.view, "(col + k)"))
                inner += statement(f"{element} = {value};")
                continue
            pack = self.frame.names.new(f"{store.buffer}_pack")
            self.frame.helpers.update(["pack", "store"])
            self.frame.use_vector(store.buffer, own)
            self.frame.use_rows(row)
            lines.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            inner += statement(f"{pack}.at[k] = {value};")
            after.append(f"store({self._address(store.buffer, store.view)}, {pack});")
        inner = [*self._joined("k"), *scope.lines, *inner]
        each = self._each() if self.join.is_pair else "int k = 0; k < VEC; ++k"
        return [*self._resumed(), *lines, "#pragma unroll", *block(f"for ({each})", inner), *after]

    def _resumed(self) -> list[str]:
        """Pairs: values are taken in a second time, one after the other, from what comes before them."""
        return [f"{self.ctype} total = before;"] if self.join.is_pair else []

    def _joined(self, k: str) -> list[str]:
        """The total of the column at hand, and of those before it where that is asked for."""
        struct = self.join.struct
        lines = []
        if self.join.is_pair:
            return [f"total = {self.join.taken('total', Text(f'{self.totals}[{k}]'), 'col')};"]
        if self.inclusive:
            lines.append(f"const {self.ctype} total = {struct}::join(before, {self.totals}[{k}]);")
        if not self.exclusive:
            return lines
        if k == "0":
            return [*lines, f"const {self.ctype} earlier = before;"]
        first, last = ("VEC - 1", "k + 1") if self.scan.backwards else ("0", "k - 1")
        choice = f"k == {first} ? before : {struct}::join(before, {self.totals}[{last}])"
        return [*lines, f"const {self.ctype} earlier = {choice};"]

    # -------------------------------------------------------------------------------- addresses

    def _index(self, view: View, column: str, at_row: str = "row") -> Text:
        row, own = split(view, self.scan.rows, self.scan.columns)
        parts = [index_text(row, at_row, self.frame.macros), index_text(own, column, self.frame.macros)]
        codes = [part.code for part in parts if part.code != "0"]
        return Text(" + ".join(codes) or "0", 12 if len(codes) > 1 else 0)

    def _address(self, buffer: str, view: View, column: str = "col") -> str:
        index = self._index(view, column)
        pointer = self.frame.pointer(buffer)
        return pointer if index.code == "0" else f"{pointer} + {index.code}"

    def _scope(self, column: str, roots: Sequence[Expr], at_row: str = "row") -> Scope:
        def leaf(expr: Expr) -> Text:
            if isinstance(expr, Load):
                if is_total(expr, self.scan):
                    return self._counted(self.join.result("total"), expr)
                if is_before(expr, self.scan):
                    return self._counted(self.join.result("earlier"), expr)
                if expr.buffer in self.made:
                    return Text(self.made[expr.buffer])
                if expr.serial in self.packs:
                    return self.frame.value(expr, self.packs[expr.serial])
            assert isinstance(expr, (Load, Index))
            base = self._index(expr.view, column, at_row)
            if isinstance(expr, Index):
                return base
            index = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, index))

        scope = Scope(leaf, self.frame.names, self.frame.macros, self.site.schedule.fast_math)
        scope.prepare(roots)
        return scope

    def _counted(self, total: Text, load: Load) -> Text:
        """A place counts in 32 bits, but is told in 64."""
        return Text(f"static_cast<{CTYPES[load.dtype]}>({total.code})") if self.scan.op in PLACES else total
