"""Kernels of running totals: a block scans a row tile by tile, or every thread scans a row of its own.

Owns their text. A block where a row's columns lie next to each other, so that its threads read
neighbours; a thread a row where the rows do. Never decides what is a scan: that is scans.py.
"""

from __future__ import annotations

from workbench.playbook.cuda_text import CTYPES, Text
from workbench.playbook.expr import Expr, Index, Load, unguarded
from workbench.playbook.indexing import index_text, is_unit
from workbench.playbook.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.program import Kernel, Scan, Store
from workbench.playbook.scope import Scope, statement
from workbench.playbook.views import View, split

_JOINS = {"sum": ("Sum", "0"), "prod": ("Product", "1")}
_UNROLLED = 8
"""Steps of a thread's own scan whose loads are in flight together."""


def scan_kernel(site: Site, scan: Scan, name: str) -> KernelText:
    """Write the kernel of a scan."""
    site.macros.name(scan.rows, "ROWS")
    site.macros.name(scan.columns, "COLS")
    if not in_rows(scan):
        return _ScanKernel(site, scan, vector=False).by_threads(name)
    vector = site.schedule.width > 1
    text = _ScanKernel(site, scan, vector).by_blocks(name)
    possible = text.width is None or text.width.is_possible
    return text if possible else _ScanKernel(site, scan, vector=False).by_blocks(name)


def in_rows(scan: Scan) -> bool:
    """True when the columns of a row are neighbours in memory."""
    views = [scan.view, *(leaf.view for leaf in unguarded(scan.value) if isinstance(leaf, Load))]
    parts = [split(view, scan.rows, scan.columns)[1] for view in views]
    return scan.rows.is_one or any(is_unit(part) for part in parts)


class _ScanKernel:
    def __init__(self, site: Site, scan: Scan, vector: bool) -> None:
        self.scan = scan
        store = Store(scan.buffer, scan.value, scan.view, scan.rows, scan.columns, "full")
        self.frame: Frame = frame_for(site, Kernel([store]), vector)
        self.site = site
        self.ctype = CTYPES[scan.value.dtype]
        self.join, one = _JOINS[scan.op]
        self.start = one + {"f32": ".0f", "f64": ".0", "i64": "ll"}.get(scan.value.dtype, "")
        self.columns = self.frame.macros.text(scan.columns)
        self.rows = self.frame.macros.text(scan.rows)
        self.packs: dict[int, str] = {}

    # -------------------------------------------------------------------------------- a thread a row

    def by_threads(self, name: str) -> KernelText:
        """Rows lie next to each other: a thread each, so that neighbours read neighbours."""
        order = f"int col = {self.columns} - 1; col >= 0; --col"
        if not self.scan.backwards:
            order = f"int col = 0; col < {self.columns}; ++col"
        scope = self._scope("col")
        step = self._step(scope.text(self.scan.value).code)
        element = self.frame.element(self.scan.buffer, self._index(self.scan.view, "col"))
        body = [
            "// One thread a row of its own: neighbours read neighbours, step after step.",
            "const int row = blockIdx.x * THREADS + threadIdx.x;",
            *block(f"if (row >= {self.rows})", ["return;"]),
            f"{self.ctype} total = {self.start};",
            f"#pragma unroll {_UNROLLED}",
            *block(
                f"for ({order})",
                [*scope.lines, step, *statement(f"{element} = {self._stored('total')};")],
            ),
        ]
        rows = self.site.size(self.scan.rows)
        return self.frame.finish(name, body, f"cdiv({rows}, {self.site.schedule.threads})")

    def _step(self, value: str) -> str:
        return f"total += {value};" if self.scan.op == "sum" else f"total *= {Text(value, 0).within(13)};"

    def _stored(self, code: str) -> str:
        return self.frame.stored(self.scan.buffer, code)

    # -------------------------------------------------------------------------------- a block a row

    def by_blocks(self, name: str) -> KernelText:
        """A block a row: each thread scans a few columns, the block their totals."""
        self.frame.helpers.update(["block_scan", self.scan.op])
        width = "VEC" if self.frame.vector else "1"
        tile = "THREADS * VEC" if self.frame.vector else "THREADS"
        at = "begin + threadIdx.x" + (" * VEC" if self.frame.vector else "")
        if self.scan.backwards:
            at = f"{self.columns} - {width} - ({at})"
        inside = "col >= 0" if self.scan.backwards else f"col < {self.columns}"
        own = self._own_totals()
        loop = [
            f"const int col = {at};",
            f"{self.ctype} totals[{width}];",
            f"{self.ctype} total = {self.start};",
            *block(f"if ({inside})", own),
            f"const {self.ctype} before = block_scan<{self.join}>(total, {self.start}, carry);",
            *block(f"if ({inside})", self._left()),
        ]
        body = [
            "// One block scans a row, tile by tile; carry is the total of the tiles before.",
            *([] if self.scan.rows.is_one else ["const int row = blockIdx.x;"]),
            f"{self.ctype} carry = {self.start};",
            *block(f"for (int begin = 0; begin < {self.columns}; begin += {tile})", loop),
        ]
        return self.frame.finish(name, body, self.site.size(self.scan.rows))

    def _own_totals(self) -> list[str]:
        """The thread's own columns, each with those before it."""
        if not self.frame.vector:
            scope = self._scope("col")
            value = scope.text(self.scan.value).code
            return [*scope.lines, f"totals[0] = total = {value};"]
        lines = self._loaded()
        scope = self._scope("(col + k)")
        step = self._step(scope.text(self.scan.value).code)
        inner = [*scope.lines, step, "totals[k] = total;"]
        return [*lines, "#pragma unroll", *block(f"for ({self._each()})", inner)]

    def _each(self) -> str:
        return "int k = VEC - 1; k >= 0; --k" if self.scan.backwards else "int k = 0; k < VEC; ++k"

    def _loaded(self) -> list[str]:
        lines = []
        self.frame.divisors.add(self.scan.columns)
        for load in [leaf for leaf in unguarded(self.scan.value) if isinstance(leaf, Load)]:
            row, column = split(load.view, self.scan.rows, self.scan.columns)
            if load.lookups or not is_unit(column) or load.serial in self.packs:
                continue
            pack = self.frame.names.new(f"{load.buffer}_pack")
            self.packs[load.serial] = f"{pack}.at[k]"
            self.frame.helpers.add("load")
            lines.append(f"const auto {pack} = load<VEC>({self._address(load.buffer, load.view)});")
            self.frame.use_vector(load.buffer, column)
            self.frame.use_rows(load.buffer, row)
        return lines

    def _left(self) -> list[str]:
        """The totals with what came before them, into memory."""
        column = "(col + k)" if self.frame.vector else "col"
        total = f"{self.join}::join(before, totals[{'k' if self.frame.vector else '0'}])"
        row, own = split(self.scan.view, self.scan.rows, self.scan.columns)
        if not self.frame.vector:
            element = self.frame.element(self.scan.buffer, self._index(self.scan.view, column))
            return statement(f"{element} = {self._stored(total)};")
        if not is_unit(own):
            element = self.frame.element(self.scan.buffer, self._index(self.scan.view, column))
            inner = statement(f"{element} = {self._stored(total)};")
            return ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", inner)]
        pack = self.frame.names.new(f"{self.scan.buffer}_pack")
        self.frame.helpers.add("store")
        self.frame.use_vector(self.scan.buffer, own)
        self.frame.use_rows(self.scan.buffer, row)
        inner = [f"{pack}.at[k] = {self._stored(total)};"]
        return [
            f"Pack<{self.frame.element_type(self.scan.buffer)}, VEC> {pack};",
            "#pragma unroll",
            *block("for (int k = 0; k < VEC; ++k)", inner),
            f"store({self._address(self.scan.buffer, self.scan.view)}, {pack});",
        ]

    # -------------------------------------------------------------------------------- addresses

    def _index(self, view: View, column: str) -> Text:
        row, own = split(view, self.scan.rows, self.scan.columns)
        parts = [index_text(row, "row", self.frame.macros), index_text(own, column, self.frame.macros)]
        codes = [part.code for part in parts if part.code != "0"]
        return Text(" + ".join(codes) or "0", 12 if len(codes) > 1 else 0)

    def _address(self, buffer: str, view: View) -> str:
        index = self._index(view, "col")
        pointer = self.frame.pointer(buffer)
        return pointer if index.code == "0" else f"{pointer} + {index.code}"

    def _scope(self, column: str) -> Scope:
        def leaf(expr: Expr) -> Text:
            if isinstance(expr, Load) and expr.serial in self.packs:
                return self.frame.value(expr, self.packs[expr.serial])
            assert isinstance(expr, (Load, Index))
            base = self._index(expr.view, column)
            if isinstance(expr, Index):
                return base
            index = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, index))

        scope = Scope(leaf, self.frame.names, self.frame.macros, self.site.schedule.fast_math)
        scope.prepare([self.scan.value])
        return scope
