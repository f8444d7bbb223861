"""Running totals of rows that lie side by side: a block has a bundle of them, or a piece of a bundle.

Owns their text. Threads side by side have neighbouring rows; groups of such threads stand one below the other
and share out the columns. stacked.py says how many rows and columns a block has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.ir.expr import Expr, Load, unguarded
from workbench.playbook.ir.program import Scan
from workbench.playbook.ir.views import split
from workbench.playbook.kernels.kernel_text import KernelText, Site, StackedText, block
from workbench.playbook.kernels.scan_kernel import ScanKernel
from workbench.playbook.kernels.stacked import (
    MOST_WORDS,
    NARROWEST,
    STRETCH,
    WIDEST,
    may_tell,
    promised_for,
    stacked_text,
    words_of_total,
)
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import is_unit
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import statement

_EACH = ("#pragma unroll", "for (int k = 0; k < VEC; ++k)")
_DOWN = ("#pragma unroll", "for (int step = 0; step < DOWN; ++step)")
_COLUMN = re.compile(r"\bcol\b")
_OWN = (
    "bundle",
    "bundles",
    "piece",
    "step",
    "at",
    "whole",
    "earlier_pieces",
    "heard_all",
    "told",
    "has_rows",
)
"""Names of these kernels' own, beside those of other scans."""


def stacked_scan(site: Site, scan: Scan, name: str, names: Names) -> KernelText | StackedText:
    """The kernels of a scan whose rows lie side by side."""
    site.macros.name(scan.rows, "ROWS")
    site.macros.name(scan.columns, "COLS")
    whole = _possible(site, scan, name, "bundle")
    if site.schedule.scan_by != "pieces" or not may_tell(scan):
        return whole
    pieces = _possible(site, scan, names.new(f"{name}_pieces"), "pieces")
    tile = site.schedule.parts * site.schedule.threads
    return StackedText(pieces, whole, scan.rows, scan.columns, tile, words_of_total(scan), MOST_WORDS)


def _possible(site: Site, scan: Scan, name: str, way: str) -> KernelText:
    """The kernel with vectors, or without where sizes forbid them."""
    schedule = site.schedule
    site = replace(site, schedule=replace(schedule, promised=promised_for(scan, schedule, schedule.width)))
    for vector in (True, False) if schedule.width > 1 else (False,):
        kernel = _StackedScan(site, scan, vector)
        text = kernel.by_pieces(name) if way == "pieces" else kernel.by_bundles(name)
        if text.width is None or text.width.is_possible:
            return text
    raise AssertionError("a kernel without vectors is always possible")


class _StackedScan(ScanKernel):
    """The kernel being written."""

    def __init__(self, site: Site, scan: Scan, vector: bool) -> None:
        super().__init__(site, scan, vector)
        for word in _OWN:
            self.frame.names.new(word)
        self.at_row = "(row + k)" if vector else "row"
        if vector:
            self.frame.divisors.add(scan.rows)
        self.frame.helpers.update(["stacked_scan", *self.join.shuffles, *self.join.helpers])

    # -------------------------------------------------------------------------------- the two ways

    def by_bundles(self, name: str) -> KernelText:
        """A block walks along its rows tile by tile."""
        ctype, struct = self.ctype, self.join.struct
        rows = self.site.size(self.scan.rows)
        joined = [
            f"before[k] = {struct}::join(carry[k], before[k]);",
            f"carry[k] = {struct}::join(carry[k], whole[k]);",
        ]
        loop = [
            "const int begin = tile + group * DOWN;",
            *self._tile(),
            *_for_each(joined),
            *self._left(),
        ]
        body = [
            *self._layout(),
            "const int bundle = blockIdx.x;",
            *self._rows(),
            f"{ctype} carry[VEC];  // the totals of the tiles before",
            *_for_each([f"carry[k] = {self.start};"]),
            *block(f"for (int tile = 0; tile < {self.columns}; tile += GROUPS * DOWN)", loop),
        ]
        return self.frame.finish(name, body, f"cdiv({rows}, {stacked_text(rows)})")

    def by_pieces(self, name: str) -> KernelText:
        """A block has one piece, and hears from others what lies before it."""
        self.frame.helpers.add("pieces_before")
        self.frame.scalars = ("pieces",)
        ctype, struct, words = self.ctype, self.join.struct, words_of_total(self.scan)
        a_piece = "BUNDLE" if words == 1 else f"BUNDLE * {words}"
        body = [
            *self._layout(),
            "// Pieces are numbered as blocks start: a piece only ever waits for blocks that run.",
            "__shared__ int ticket;",
            *block("if (threadIdx.x == 0)", [f"ticket = atomicInc(&{name}_begun, gridDim.x - 1);"]),
            "__syncthreads();",
            "const int bundles = gridDim.x / pieces, piece = ticket / bundles, bundle = ticket % bundles;",
            *self._rows(),
            "const int begin = (piece * GROUPS + group) * DOWN;",
            *self._tile(),
            f"const int words = (pieces + pieces / {STRETCH}) * {a_piece};",
            f"unsigned long long* told = {name}_told + bundle * words;",
            f"{ctype} earlier_pieces[VEC];",
            f"pieces_before<{struct}, LANES>(whole, earlier_pieces, {self.start}, told, piece, pieces);",
            "bool heard_all = false;  // by all pieces of these rows",
            *block("if (threadIdx.x == 0)", self._counted_heard(name)),
            *_for_each([f"before[k] = {struct}::join(earlier_pieces[k], before[k]);"]),
            *self._left(),
            "forget_pieces(told, words, heard_all);",
        ]
        text = self.frame.finish(name, body, "")
        own = [
            "// What pieces tell one another, how many have begun, how many of a bundle have heard those",
            "// before them; zero between launches, of which one may run at a time.",
            f"__device__ unsigned long long {name}_told[{MOST_WORDS}];",
            f"__device__ unsigned int {name}_begun, {name}_heard[{MOST_WORDS // (2 * NARROWEST)}];",
        ]
        return replace(text, code="\n".join([*own, "", text.code]))

    def _counted_heard(self, name: str) -> list[str]:
        return [
            "__threadfence();",
            f"heard_all = atomicInc(&{name}_heard[bundle], pieces - 1) == pieces - 1;",
        ]

    # -------------------------------------------------------------------------------- what they share

    def _layout(self) -> list[str]:
        half = WIDEST // 2
        sizes = f"{self.rows} > {half} ? {WIDEST} : {self.rows} > {NARROWEST} ? {half} : {NARROWEST}"
        return [
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            "// Rows that lie side by side: LANES threads have VEC neighbours each, and groups of so many",
            "// threads stand one below the other, each with DOWN columns of its rows in registers.",
            f"constexpr int DOWN = {self.site.schedule.parts}, BUNDLE = {sizes};",
            "constexpr int LANES = BUNDLE / VEC, GROUPS = THREADS / LANES;",
            "const int group = threadIdx.x / LANES;",
        ]

    def _rows(self) -> list[str]:
        return [
            "const int first_row = bundle * BUNDLE + threadIdx.x % LANES * VEC;",
            f"const bool has_rows = first_row < {self.rows};  // those that have none repeat the last",
            f"const int row = has_rows ? first_row : {self.rows} - VEC;",
        ]

    def _tile(self) -> list[str]:
        """The totals of a thread's own columns, what comes before them in the tile, and that of the tile.

        All loads are asked for before the first value is used, and none stands behind a branch, where it
        would wait: beyond the end, the last column is read again, and what comes of it is not stored.
        """
        struct, value = self.join.struct, self.scan.value
        packs = self._side_by_side([value])
        declared = [
            f"Pack<{self.frame.element_type(load.buffer)}, VEC> {name}[DOWN];" for name, load in packs
        ]
        asked = [f"{name}[step] = {self._asked(load)};" for name, load in packs]
        self.packs = {load.serial: f"{name}[step].at[k]" for name, load in packs}
        scope = self._scope("col", [value], self.at_row)
        own = f"{self.totals}[step][k]"
        if self.join.is_pair:
            kept = [f"{own} = {scope.text(value).code};"]
            kept.append(f"before[k] = {self.join.taken('before[k]', Text(own), 'col')};")
        else:
            kept = [f"{own} = before[k] = {self.join.taken('before[k]', scope.text(value), 'col')};"]
        inner = [*scope.lines, *kept]
        column = self._column() if any(_COLUMN.search(line) for line in inner) else []
        return [
            *declared,
            *(_down([*self._column(), *asked]) if asked else []),
            *self._declared(),
            *_for_each([f"before[k] = {self.start};"]),
            *_down([*column, *_for_each(inner)]),
            f"stacked_scan<{struct}, LANES>(before, whole, {self.start});",
        ]

    def _declared(self) -> list[str]:
        if self.join.is_pair:
            return [f"{self.kept_type} {self.totals}[DOWN][VEC];", f"{self.ctype} before[VEC], whole[VEC];"]
        return [f"{self.ctype} totals[DOWN][VEC], before[VEC], whole[VEC];"]

    def _column(self) -> list[str]:
        at = f"min(begin + step, {self.columns} - 1)"
        return [f"const int col = {f'{self.columns} - 1 - {at}' if self.scan.backwards else at};"]

    def _side_by_side(self, roots: Sequence[Expr]) -> list[tuple[str, Load]]:
        """Loads of vectors that neighbouring rows read, each with a name."""
        found: dict[int, tuple[str, Load]] = {}
        for load in (leaf for root in roots for leaf in unguarded(root) if isinstance(leaf, Load)):
            row, column = split(load.view, self.scan.rows, self.scan.columns)
            if self._is_made(load) or load.lookups or load.serial in found or not is_unit(row):
                continue
            found[load.serial] = self.frame.names.new(f"{load.buffer}_pack"), load
            self.frame.use_vector(load.buffer, row)
            self.frame.use_rows(column)
        return list(found.values())

    def _asked(self, load: Load) -> str:
        self.frame.helpers.add("load")
        return f"load<VEC>({self._address(load.buffer, load.view)})"

    def _left(self) -> list[str]:
        """The totals with what came before them, and what is computed from them, into memory."""
        wanted = [store.value for store in self.scan.tail]
        packs = self._side_by_side(wanted)
        lines = [*self._column(), *(f"const auto {name} = {self._asked(load)};" for name, load in packs)]
        self.packs = {load.serial: f"{name}.at[k]" for name, load in packs}
        scope = self._scope("col", wanted, self.at_row)
        there = f"has_rows && begin + step < {self.columns}"
        inner: list[str] = []
        after: list[str] = []
        for store in self.stores:
            value = self._value(store, scope)
            row, column = split(store.view, self.scan.rows, self.scan.columns)
            if not is_unit(row):
                element = self.frame.element(store.buffer, self._index(store.view, "col", self.at_row))
                inner += block(f"if ({there})", statement(f"{element} = {value};"))
                continue
            pack = self.frame.names.new(f"{store.buffer}_pack")
            self.frame.helpers.update(["pack", "store"])
            self.frame.use_vector(store.buffer, row)
            self.frame.use_rows(column)
            lines.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            inner += statement(f"{pack}.at[k] = {value};")
            after.append(f"store({self._address(store.buffer, store.view)}, {pack});")
        stored = block(f"if ({there})", after) if after else []
        return _down([*lines, *_for_each([*self._at_hand(), *scope.lines, *inner]), *stored])

    def _at_hand(self) -> list[str]:
        """The total of the column at hand, and of those before it where that is asked for."""
        struct, lines = self.join.struct, list[str]()
        if self.join.is_pair:
            taken = self.join.taken("before[k]", Text(f"{self.totals}[step][k]"), "col")
            return [f"const {self.ctype} total = before[k] = {taken};"]
        if self.inclusive:
            lines.append(f"const {self.ctype} total = {struct}::join(before[k], totals[step][k]);")
        if self.exclusive:
            choice = f"step == 0 ? before[k] : {struct}::join(before[k], totals[step - 1][k])"
            lines.append(f"const {self.ctype} earlier = {choice};")
        return lines


def _for_each(lines: list[str]) -> list[str]:
    """Statements for every row of a thread."""
    return [_EACH[0], *block(_EACH[1], lines)]


def _down(lines: list[str]) -> list[str]:
    """Statements for every column of a thread."""
    return [_DOWN[0], *block(_DOWN[1], lines)]
