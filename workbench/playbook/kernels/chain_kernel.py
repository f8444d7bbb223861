"""Two running totals along the same rows in one kernel: the second adds up what the first makes.

Owns the text of such a kernel, a block a row. scan_chains.py says which scans follow one another so.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.analysis.scan_joins import Join
from workbench.playbook.ir.expr import Expr, Load, unguarded
from workbench.playbook.ir.program import Kernel, Scan, Store
from workbench.playbook.ir.views import split
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for
from workbench.playbook.kernels.scan_kernel import ScanKernel
from workbench.playbook.text.cuda_text import PRODUCT
from workbench.playbook.text.indexing import is_unit
from workbench.playbook.text.scope import Scope, statement


def chain_kernel(site: Site, scan: Scan, name: str) -> KernelText:
    """Write the kernel of a scan and of the one ahead of it, with vectors where sizes allow them."""
    site.macros.name(scan.rows, "ROWS")
    site.macros.name(scan.columns, "COLS")
    if site.schedule.width > 1:
        text = ChainKernel(site, scan, vector=True).by_blocks(name)
        if text.width is None or text.width.is_possible:
            return text
    return ChainKernel(site, scan, vector=False).by_blocks(name)


class ChainKernel(ScanKernel):
    """The kernel being written."""

    def __init__(self, site: Site, scan: Scan, vector: bool) -> None:
        super().__init__(site, scan, vector)
        assert scan.ahead is not None
        ahead = scan.ahead
        own = Store(ahead.buffer, ahead.value, ahead.view, ahead.rows, ahead.columns, "full")
        self.stores = (*((own,) if ahead.kept else ()), *self.stores)
        last = Store(scan.buffer, scan.value, scan.view, scan.rows, scan.columns, "full")
        taken = self.frame.names
        self.frame = frame_for(site, Kernel([own, last, *scan.tail]), vector)
        self.frame.names = taken
        if vector:
            self.frame.divisors.add(scan.columns)
        for word in ("from", "inside"):
            taken.new(word)
        self.ahead = ahead
        self.before = ""
        self.first = taken.new(f"{ahead.buffer}_totals")
        self.first_join = Join(ahead.op, ahead.value.dtype, site.schedule.fast_math)
        self.made = {ahead.buffer: self.first_join.result(f"{self.first}[k]").within(PRODUCT)}

    def by_blocks(self, name: str) -> KernelText:
        """A block a row, tile by tile: all loads, then one scan after the other."""
        joins = [self.first_join, self.join]
        self.frame.helpers.update(["block_scan"])
        self.frame.helpers.update(name for join in joins for name in (*join.shuffles, *join.helpers))
        carries = [self.frame.names.new(f"{self.ahead.buffer}_carry"), "carry"]
        roots = [self.ahead.value, self.scan.value, *(store.value for store in self.scan.tail)]
        loop = [
            f"const int col = {self.turned('begin + threadIdx.x * VEC')};",
            f"const bool inside = {self.inside};",
            "const int from = inside ? col : 0;  // what comes of it lies behind the end: it is not stored",
            *self._asked(roots),
            *self._scanned(self.ahead, joins[0], self.first, carries[0]),
            *self._scanned(self.scan, joins[1], self.totals, carries[1]),
            *self._stored(),
        ]
        body = [
            "// One block scans a row, tile by tile, and then what is made of these totals; both are carried",
            "// from tile to tile.",
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            *([] if self.scan.rows.is_one else ["const int row = blockIdx.x;"]),
            *(f"{join.ctype} {carry} = {join.start};" for join, carry in zip(joins, carries, strict=True)),
            *block(f"for (int begin = 0; begin < {self.columns}; begin += THREADS * VEC)", loop),
        ]
        return self.frame.finish(name, body, self.site.size(self.scan.rows))

    @property
    def width(self) -> str:
        """Columns of a thread."""
        return "VEC"

    def _asked(self, roots: Sequence[Expr]) -> list[str]:
        """Every load of a vector: none stands behind a barrier, where it would wait."""
        lines: list[str] = []
        for load in (leaf for root in roots for leaf in unguarded(root) if isinstance(leaf, Load)):
            row, column = split(load.view, self.scan.rows, self.scan.columns)
            if self._is_made(load) or load.lookups or load.serial in self.packs or not is_unit(column):
                continue
            pack = self.frame.names.new(f"{load.buffer}_pack")
            self.packs[load.serial] = f"{pack}.at[k]"
            self.frame.helpers.add("load")
            address = self._address(load.buffer, load.view, "from")
            lines.append(f"const auto {pack} = load<VEC>({address});")
            self.frame.use_vector(load.buffer, column)
            self.frame.use_rows(row)
        return lines

    def _at_hand(self, roots: Sequence[Expr]) -> Scope:
        return self._scope("(from + k)" if self.frame.vector else "from", roots)

    def _scanned(self, scan: Scan, join: Join, totals: str, carry: str) -> list[str]:
        """The totals of a thread's columns, with all that comes before them in the row."""
        own, before = (self.frame.names.new(f"{scan.buffer}_{word}") for word in ("own", "before"))
        self.before = before
        scope = self._at_hand([scan.value])
        value = join.taken(own, scope.text(scan.value), "col")
        joined = f"{totals}[k] = {join.struct}::join({before}, {totals}[k]);"
        return [
            f"{join.ctype} {totals}[VEC], {own} = {join.start};",
            "#pragma unroll",
            *block(
                f"for ({self._each()})",
                [*scope.lines, f"{totals}[k] = {own} = {value};"],
            ),
            f"const {join.ctype} {before} = block_scan<{join.struct}>({own}, {join.start}, {carry});",
            "#pragma unroll",
            *block("for (int k = 0; k < VEC; ++k)", [joined]),
        ]

    def _stored(self) -> list[str]:
        """Totals, and what is computed from them, into memory."""
        scope = self._at_hand([store.value for store in self.scan.tail])
        inner: list[str] = []
        packs: list[str] = []
        after: list[str] = []
        for store in self.stores:
            made = store.buffer == self.ahead.buffer
            total = self.made[self.ahead.buffer]
            value = self.frame.stored(store.buffer, total) if made else self._value(store, scope)
            row, column = split(store.view, self.scan.rows, self.scan.columns)
            if not is_unit(column):
                at = "(col + k)" if self.frame.vector else "col"
                element = self.frame.element(store.buffer, self._index(store.view, at))
                inner += block("if (inside)", statement(f"{element} = {value};"))
                continue
            pack = self.frame.names.new(f"{store.buffer}_pack")
            self.frame.helpers.update(["pack", "store"])
            self.frame.use_vector(store.buffer, column)
            self.frame.use_rows(row)
            packs.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            inner += statement(f"{pack}.at[k] = {value};")
            after.append(f"store({self._address(store.buffer, store.view)}, {pack});")
        return [
            *packs,
            "#pragma unroll",
            *block("for (int k = 0; k < VEC; ++k)", [*self._total(), *scope.lines, *inner]),
            *(block("if (inside)", after) if after else []),
        ]

    def _total(self) -> list[str]:
        """The total of the column at hand, and of those before it where that is asked for."""
        lines = [f"const {self.ctype} total = {self.totals}[k];"] if self.inclusive else []
        if self.exclusive:
            first, last = ("VEC - 1", "k + 1") if self.scan.backwards else ("0", "k - 1")
            choice = f"k == {first} ? {self.before} : {self.totals}[{last}]"
            lines.append(f"const {self.ctype} earlier = {choice};")
        return lines
