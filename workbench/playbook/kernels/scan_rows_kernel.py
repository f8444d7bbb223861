"""Rows of running totals that are used up at once: a warp or a block a row, which reads everything once.

Owns the text of such a kernel: totals of one or several scans, what is computed from them, and what that
comes to along the row, for one result or for several side by side, as the colours of a ray are. scan_sums.py
says which reductions those are, scan_chains.py which scans; scan_kernel.py has one scan alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Accumulator
from workbench.playbook.analysis.scan_joins import Join
from workbench.playbook.analysis.scan_lanes import lanes_of
from workbench.playbook.analysis.scan_sums import Summed, axes_of, beside_row, sums_of
from workbench.playbook.analysis.scan_tail import is_before, is_total
from workbench.playbook.ir.expr import Apply, Expr, Index, Load, Reduction, loads_below, unguarded
from workbench.playbook.ir.program import Kernel, Scan, Store
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View, joined, split
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.kernels.scan_kernel import ScanKernel, who_scans
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.schedules.schedule import Team
from workbench.playbook.text.cuda_text import CTYPES, PRODUCT, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import Scope, statement, stem_of

_EACH = "for (int k = 0; k < VEC; ++k)"
_OWN_NAMES = ("from", "inside", "lane", "beside")


def scan_rows_kernel(site: Site, scan: Scan, name: str) -> KernelText:
    """Write it, with vectors where sizes allow them."""
    site.macros.name(scan.rows, "ROWS")
    site.macros.name(scan.columns, "COLS")
    if site.schedule.width > 1:
        text = ScanRowsKernel(site, scan, vector=True).text(name)
        if text.width is None or text.width.is_possible:
            return text
    return ScanRowsKernel(site, scan, vector=False).text(name)


@dataclass(frozen=True)
class _Ahead:
    """A scan that the kernel makes before its last, and its names."""

    scan: Scan
    join: Join
    totals: str
    """The totals of a thread's columns, with all that comes before them in the row."""
    carry: str

    @property
    def result(self) -> str:
        """The total of the column at hand."""
        return self.join.result(f"{self.totals}[k]").within(PRODUCT)


class ScanRowsKernel(ScanKernel):
    """The kernel being written."""

    width = "VEC"
    """Columns of a thread."""

    def __init__(self, site: Site, scan: Scan, vector: bool) -> None:
        super().__init__(site, scan, vector)
        own = Store(scan.buffer, scan.value, scan.view, scan.rows, scan.columns, "full")
        taken = self.frame.names
        ahead = [Store(one.buffer, one.value, one.view, one.rows, one.columns, "full") for one in scan.ahead]
        stores = [*ahead, *([own] if scan.op else []), *scan.tail, *scan.sums]
        told = [store for one, store in zip(scan.ahead, ahead, strict=True) if one.kept]
        self.stores = (*told, *self.stores)
        self.frame = frame_for(site, Kernel(stores), vector)
        self.frame.names = taken
        for word in _OWN_NAMES:
            taken.new(word)
        if vector:
            self.frame.divisors.add(scan.columns)
        lanes = lanes_of(site.schedule, scan, site.declared_sizes)
        by_block = site.schedule.row_sums == "block" if scan.sums else not lanes
        self.team = TeamText(
            "block" if by_block else "warp", site.schedule.threads, lanes_of_warp=lanes or 32
        )
        self.ahead = [self._begun_ahead(one) for one in scan.ahead]
        self.made.update({one.scan.buffer: one.result for one in self.ahead})
        self.before_rows = _FirstWalks(self, scan.before) if scan.before is not None else None
        self.summed = sums_of(site.program.pool, scan)
        given = [*(store.value for store in scan.tail)]
        given += [part for one in self.summed for part in one.parts.shared.values()]
        loads = loads_below(given)
        self.exclusive = any(is_before(load, scan) for load in loads)
        self.inclusive = scan.kept or any(is_total(load, scan) for load in loads)
        self.beside_packs: dict[int, str] = {}
        self.accumulators: dict[int, AccumulatorText] = {}
        for one in self.summed:
            kept = taken.new(stem_of(one.reduction))
            at = f"{kept}[beside]" if self._is_several(one.beside) else kept
            accumulator = Accumulator(one.reduction.op, one.reduction.body, (one.reduction.key,))
            self.accumulators[one.reduction.key] = AccumulatorText(accumulator, one.reduction.dtype, at)

    def text(self, name: str) -> KernelText:
        """The whole kernel."""
        first = self.before_rows.lines() if self.before_rows is not None else []
        used = [store.value for store in self.scan.tail]
        used += [part for one in self.summed for part in one.parts.shared.values()]
        scanned = [*(one.value for one in self.scan.ahead), *([self.scan.value] if self.scan.op else [])]
        loop = [
            f"const int col = {self.turned(f'begin + {self.team.lane} * VEC')};",
            f"const bool inside = {self.inside};",
            "const int from = inside ? col : 0;  // what comes of it lies behind the end: nobody takes it",
            *self._asked([*scanned, *used]),
            *self._asked_beside(),
            *(line for one in self.ahead for line in self._totals_ahead(one)),
            *(self._totals() if self.scan.op else []),
            *self._used(used),
        ]
        body = [
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            *self._head(),
            *first,
            *(f"{one.join.ctype} {one.carry} = {one.join.start};" for one in self.ahead),
            *([f"{self.ctype} carry = {self.start};"] if self.scan.op else []),
            *self._begun(),
            *block(f"for (int begin = 0; begin < {self.columns}; begin += {self.team.lanes} * VEC)", loop),
            *self._joined_sums(),
            *self._sum_stores(),
        ]
        rows = self.site.size(self.scan.rows)
        each = self.team.rows_per_block
        return self.frame.finish(name, body, rows if each == 1 else f"cdiv({rows}, {each})")

    def _head(self) -> list[str]:
        """Whose row it is."""
        comment = [
            "// A row's totals are used up where they are made: what is computed from them, and what that",
            "// comes to along the row, need no second reading.",
        ]
        if not self.scan.op:
            comment = [
                "// One walk over a row for all that it is summed to: they share what they are weighed by."
            ]
        if not self.scan.sums:
            comment = self._who_scans()
        lines = [*self.team.prologue, *comment]
        if self.scan.rows.is_one and self.team.kind == "block":
            return lines
        lines.append(f"const int row = {self.team.first_row};")
        return [*lines, *(block(f"if (row >= {self.rows})", ["return;"]) if self.team.kind == "warp" else [])]

    def _who_scans(self) -> list[str]:
        who = who_scans(self.team.lanes_of_warp) if self.team.kind == "warp" else "A block scans a row"
        if self.before_rows is not None:
            return [
                f"// {who}, after a walk for what it is reduced to:",
                "// that needs no launch of its own.",
            ]
        several = f"{len(self.ahead) + 1} totals of each column:"
        return [f"// {who}, {several}", "// they share what they read, and none of them is read again."]

    # -------------------------------------------------------------------------------- the walk

    def _begun_ahead(self, scan: Scan) -> _Ahead:
        totals, carry = (self.frame.names.new(f"{scan.buffer}_{word}") for word in ("totals", "carry"))
        return _Ahead(scan, Join(scan.op, scan.value.dtype, self.site.schedule.fast_math), totals, carry)

    @property
    def _lanes(self) -> int:
        """Lanes of a warp that have a row; 0 where a block has it."""
        return 0 if self.team.kind == "block" else self.team.lanes_of_warp

    def _totals_ahead(self, one: _Ahead) -> list[str]:
        """The totals of a thread's own columns, with what comes before them: later scans read them."""
        own, before = (self.frame.names.new(f"{one.scan.buffer}_{word}") for word in ("own", "before"))
        scope = self._at_hand([one.scan.value])
        value = one.join.taken(own, scope.text(one.scan.value), "col")
        joined = f"{one.totals}[k] = {one.join.struct}::join({before}, {one.totals}[k]);"
        scanned = self.scanned(one.join, self._lanes, own, one.carry)
        return [
            f"{one.join.ctype} {one.totals}[VEC], {own} = {one.join.start};",
            "#pragma unroll",
            *block(f"for ({self._each()})", [*scope.lines, f"{one.totals}[k] = {own} = {value};"]),
            f"const {one.join.ctype} {before} = {scanned};",
            "#pragma unroll",
            *block(_EACH, [joined]),
        ]

    def _asked(self, roots: Sequence[Expr]) -> list[str]:
        """Every load of a vector: none stands behind the scan, where it would wait."""
        lines: list[str] = []
        for load in (leaf for root in roots for leaf in unguarded(root) if isinstance(leaf, Load)):
            if self._is_made(load) or load.lookups or load.serial in self.packs:
                continue
            row, column = split(load.view, self.scan.rows, self.scan.columns)
            if not is_unit(column):
                continue
            pack = self.frame.names.new(f"{load.buffer}_pack")
            self.packs[load.serial] = f"{pack}.at[k]"
            address = self._address(load.buffer, load.view, "from")
            lines.append(f"const auto {pack} = {self._function('load')}<VEC>({address});")
            if self.frame.vector:
                self.frame.use_vector(load.buffer, column)
                self.frame.use_rows(row)
        return lines

    def _asked_beside(self) -> list[str]:
        """Vectors of what results side by side have of their own: they lie column by column, or in planes."""
        lines: list[str] = []
        for one in self.summed:
            for load in one.parts.own:
                assert isinstance(load, Load)
                if load.serial not in self.beside_packs:
                    lines += self._pack_beside(load, one)
        return lines

    def _pack_beside(self, load: Load, one: Summed) -> list[str]:
        by_row, beside, by_column = axes_of(self.scan, one.reduction.rows.size, load.view)
        several = self.frame.macros.text(one.beside)
        column, across = View(by_column), View(beside)
        woven = is_unit(across) and len(beside) == 1 and len(by_column) == 1
        woven = woven and by_column[0].stride == one.beside
        if not woven and not is_unit(column):
            return []
        pack = self.frame.names.new(f"{load.buffer}_packs")
        self.frame.helpers.add("pack")
        row = joined((by_row,), load.view.offset)
        if self.frame.vector:
            self.frame.vectors.add(load.buffer)
            self.frame.use_rows(row)
            self.frame.divisors.update([] if woven else [column.axes[-1].size])
            self.frame.divisors.update([] if woven else [axis.stride for axis in beside])
        at = index_text(row, "row", self.frame.macros).code
        if woven:
            place = [f"size_t(from) * {several}", "beside * VEC"]
            element = f"{pack}[(k * {several} + beside) / VEC].at[(k * {several} + beside) % VEC]"
        else:
            place = [index_text(across, "beside", self.frame.macros).code]
            place.append(index_text(column, "from", self.frame.macros).code)
            element = f"{pack}[beside].at[k]"
        self.beside_packs[load.serial] = element
        address = " + ".join([self.frame.pointer(load.buffer), *([] if at == "0" else [at]), *place])
        ctype = self.frame.element_type(load.buffer)
        return [
            f"Pack<{ctype}, VEC> {pack}[{several}];",
            "#pragma unroll",
            *block(
                self._all_beside(one.beside), [f"{pack}[beside] = {self._function('load')}<VEC>({address});"]
            ),
        ]

    def _totals(self) -> list[str]:
        """The totals of a thread's own columns, and what comes before them."""
        before = self.scanned_by(self._lanes)
        scope = self._at_hand([self.scan.value])
        value = self.join.taken("total", scope.text(self.scan.value), "col")
        return [
            f"{self.ctype} {self.totals}[VEC], total = {self.start};",
            "#pragma unroll",
            *block(f"for ({self._each()})", [*scope.lines, f"{self.totals}[k] = total = {value};"]),
            f"const {self.ctype} before = {before};",
        ]

    def _used(self, roots: Sequence[Expr]) -> list[str]:
        """What is computed from the totals: stored, and taken in."""
        scope = self._at_hand(roots)
        packs, inner, after = list[str](), list[str](), list[str]()
        for store in self.stores:
            value = self._value(store, scope)
            row, column = split(store.view, self.scan.rows, self.scan.columns)
            if not is_unit(column):
                at = self._index(store.view, self._here)
                element = self.frame.element(store.buffer, at)
                inner += block("if (inside)", statement(f"{element} = {value};"))
                continue
            pack = self.frame.names.new(f"{store.buffer}_pack")
            self.frame.helpers.add("pack")
            if self.frame.vector:
                self.frame.use_vector(store.buffer, column)
                self.frame.use_rows(row)
            packs.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            inner += statement(f"{pack}.at[k] = {value};")
            after.append(f"{self._function('store')}({self._address(store.buffer, store.view)}, {pack});")
        entered = [line for one in self.summed for line in self._entered(one, scope)]
        inner += block("if (inside)", entered) if entered else []
        lines = [*self._joined("k"), *scope.lines, *inner]
        return [
            *packs,
            "#pragma unroll",
            *block(_EACH, lines),
            *(block("if (inside)", after) if after else []),
        ]

    def _function(self, access: str) -> str:
        """How vectors move: everything is read and written once."""
        schedule = self.site.schedule
        stream = schedule.stream or (access == "store" and schedule.stream_stores)
        name = f"{access}_once" if stream else access
        self.frame.helpers.add(name)
        return name

    def _joined(self, k: str) -> list[str]:
        """The total of the column at hand, and of those before it, where they are asked for."""
        lines = []
        if self.inclusive:
            lines.append(f"const {self.ctype} total = {self.join.struct}::join(before, {self.totals}[k]);")
        if self.exclusive:
            first, last = ("VEC - 1", "k + 1") if self.scan.backwards else ("0", "k - 1")
            choice = f"k == {first} ? before : {self.join.struct}::join(before, {self.totals}[{last}])"
            lines.append(f"const {self.ctype} earlier = {choice};")
        return lines

    def _entered(self, one: Summed, scope: Scope) -> list[str]:
        """Statements that take the column at hand into a reduction."""
        bound = {serial: self._named_once(scope, part) for serial, part in one.parts.shared.items()}
        named = Scope(
            lambda leaf: self._own_leaf(leaf, one), self.frame.names, self.frame.macros,
            self.site.schedule.fast_math, bound,
        )  # fmt: skip
        text = self.accumulators[one.reduction.key]
        entering = [*statement(text.enter(named.text(one.reduction.body), "col"))]
        lines = [*named.lines, *entering]
        if not self._is_several(one.beside):
            return lines
        return ["#pragma unroll", *block(self._all_beside(one.beside), lines)]

    def _named_once(self, scope: Scope, part: Expr) -> Text:
        """What all results side by side want, under a name: they are written in a loop of their own."""
        plain = part.serial in scope.bound or not isinstance(part, Apply)
        return scope.text(part) if plain else scope.name(part)

    def _value(self, store: Store, scope: Scope) -> str:
        """What a store writes."""
        if store.buffer in self.made:
            return self.frame.stored(store.buffer, self.made[store.buffer])
        own = store.value is self.scan.value and store.buffer == self.scan.buffer
        code = self.join.result("total").code if own else scope.text(store.value).code
        return self.frame.stored(store.buffer, code)

    def _own_leaf(self, leaf: Expr, one: Summed) -> Text:
        """An element that one of the results side by side has of its own."""
        assert isinstance(leaf, Load)
        if leaf.serial in self.beside_packs:
            return self.frame.value(leaf, self.beside_packs[leaf.serial])
        by_row, beside, by_column = axes_of(self.scan, one.reduction.rows.size, leaf.view)
        views = ((joined((by_row,), leaf.view.offset), "row"), (View(beside), "beside"))
        texts = [
            index_text(view, at, self.frame.macros).code
            for view, at in (*views, (View(by_column), self._here))
        ]
        index = " + ".join(code for code in texts if code != "0") or "0"
        return self.frame.value(leaf, self.frame.element(leaf.buffer, Text(index)))

    @property
    def _here(self) -> str:
        return "(from + k)" if self.frame.vector else "from"

    def _at_hand(self, roots: Sequence[Expr]) -> Scope:
        """Totals have names of their own already."""
        scope = self._scope(self._here, [])
        for load in loads_below(roots):
            if is_total(load, self.scan) or is_before(load, self.scan):
                total = self.join.result("total" if is_total(load, self.scan) else "earlier")
                scope.bound[load.serial] = total
        scope.prepare(roots)
        return scope

    # -------------------------------------------------------------------------------- the results

    def _is_several(self, beside: Size) -> bool:
        return not beside.is_one

    def _all_beside(self, beside: Size) -> str:
        return f"for (int beside = 0; beside < {self.frame.macros.text(beside)}; ++beside)"

    def _begun(self) -> list[str]:
        lines = []
        for one in self.summed:
            text = self.accumulators[one.reduction.key]
            if not self._is_several(one.beside):
                lines.append(f"{text.ctype} {text.name} = {text.start};")
                continue
            lines.append(f"{text.ctype} {text.name.replace('beside', self.frame.macros.text(one.beside))};")
            each = block(self._all_beside(one.beside), [f"{text.name} = {text.start};"])
            lines += ["#pragma unroll", *each]
        return lines

    def _joined_sums(self) -> list[str]:
        lines = []
        for one in self.summed:
            text = self.accumulators[one.reduction.key]
            self.frame.helpers.update([*text.helpers, self.team.helper(self.site.schedule.tree)])
            line = f"{text.name} = {self.team.join(text.op, text.name)};"
            several = self._is_several(one.beside)
            lines += ["#pragma unroll", *block(self._all_beside(one.beside), [line])] if several else [line]
        return lines

    def _sum_stores(self) -> list[str]:
        """What the row comes to, by one thread."""
        lines = []
        for store in self.scan.sums:
            beside = store.rows // self.scan.rows
            several = self._is_several(beside)
            at = f"(row * {self.frame.macros.text(beside)} + beside)" if several else "row"
            scope = self._of_row(at)
            scope.prepare([store.value])
            by_row, across = beside_row(self.scan, store)
            places = [index_text(joined((by_row,), store.view.offset), "row", self.frame.macros).code]
            places.append(index_text(View(across), "beside", self.frame.macros).code)
            index = Text(" + ".join(code for code in places if code != "0") or "0")
            value = self.frame.stored(store.buffer, scope.text(store.value).code)
            each = [*scope.lines, *statement(f"{self.frame.element(store.buffer, index)} = {value};")]
            lines += ["#pragma unroll", *block(self._all_beside(beside), each)] if several else each
        return block(f"if ({self.team.leads})", lines) if lines else []

    def _of_row(self, at: str) -> Scope:
        def leaf(expr: Expr) -> Text:
            if isinstance(expr, Reduction):
                return self.accumulators[expr.key].results(self.columns)[0]
            assert isinstance(expr, Load | Index)
            if isinstance(expr, Load) and expr.buffer in self.made:
                return Text(self.made[expr.buffer])
            base = index_text(expr.view, at, self.frame.macros)
            if isinstance(expr, Index):
                return base
            index = lookup_text(expr, base, self.frame, scope.text) if expr.lookups else base
            return self.frame.value(expr, self.frame.element(expr.buffer, index))

        scope = Scope(leaf, self.frame.names, self.frame.macros, self.site.schedule.fast_math)
        return scope


class _FirstWalks(RowKernel):
    """The walks along a row that come before the last: what they come to has names for that."""

    def __init__(self, outer: ScanRowsKernel, kernel: Kernel) -> None:
        plain = replace(outer.site.schedule, cache="reread", persistent=False, prefetch=False, early=False)
        plain = replace(plain, stream=False)  # the last walk reads it again
        team: Team = "warp" if outer.team.kind == "warp" else "block"
        lanes = outer.team.lanes_of_warp
        schedule = replace(plain, team=team, lanes=lanes, fit=False, team_fit=False)
        super().__init__(replace(outer.site, schedule=schedule), kernel, "", vector=outer.frame.vector)
        self.outer = outer
        outer.frame.need_operations([store.value for store in self.kernel.stores])
        self.frame = self.rows_frame(outer.frame)

    def rows_frame(self, frame: Frame) -> Frame:
        """The frame of the whole kernel, also for what was begun with one of its own."""
        self.rows = Scope(self._row_leaf, frame.names, frame.macros, self.site.schedule.fast_math)
        return frame

    def lines(self) -> list[str]:
        """Statements up to the values a row, which later walks know by the buffers they replace."""
        body = self.needs.before_walk()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
        self.rows.prepare(store.value for store in self.kernel.stores)
        named = list[str]()
        for store in self.kernel.stores:
            name = self.frame.names.new(store.buffer)
            named.append(f"const {CTYPES[store.value.dtype]} {name} = {self.rows.text(store.value).code};")
            self.outer.made[store.buffer] = name
        return [*self._pointer_lines, *body, *self._flush(), *named, ""]
