"""Rows that lie side by side, read in vectors: a lane has VEC neighbouring rows, and of each its own columns.

Owns what a pass over rows becomes then: accumulators, kept values and values a row have an element for each
row of a lane. abreast_kernel.py has the layout with one row a lane, for what does not lie in vectors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.ir.expr import Expr, Load
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.kernels.abreast_kernel import AbreastKernel, AbreastTeam
from workbench.playbook.kernels.column_loop import ColumnLoop
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, lookup_text
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import Leaf, Scope, statement

_EACH = ("#pragma unroll", "for (int k = 0; k < VEC; ++k)")
MOST_JOINED = 40 * 1024
"""Bytes in which results are joined; a kernel has 48 KB of shared memory that it need not ask for."""


def for_each(lines: list[str]) -> list[str]:
    """Statements for every row of a lane."""
    return [_EACH[0], *block(_EACH[1], lines)] if lines else []


@dataclass(frozen=True)
class VectorTeam(AbreastTeam):
    """The threads of a block that have one lane, and so its VEC rows."""

    @property
    def prologue(self) -> list[str]:
        """How the block is divided."""
        return [
            "// 32 * VEC rows that lie side by side a block, VEC neighbours a lane: a warp reads a column of",
            "// all of them in vectors, and warps take turns at the columns.",
            "constexpr int GROUPS = THREADS / 32;",
            "const int group = threadIdx.x / 32;",
            "const int first = (blockIdx.x * 32 + int(threadIdx.x) % 32) * VEC;",
        ]

    @property
    def first_row(self) -> str:
        """The first row of a lane, if there are so many."""
        return "first"

    def join(self, op: str, value: str) -> str:
        """The results of a lane, known to each of its threads."""
        return f"join_groups_each<{op}>({value})"

    def helper(self, tree: bool) -> str:
        """Helper function that ``join`` calls."""
        return "join_groups_each"


class _EachRow(Scope):
    """Values a row, as arrays with an element for each row of a lane."""

    def __init__(self, leaf: Leaf, frame: Frame) -> None:
        super().__init__(leaf, frame.names, frame.macros, frame.site.schedule.fast_math)
        self.declared: list[str] = []

    def declare(self, expr: Expr, name: str, code: str) -> Text:
        """An element is written in the loop over the rows of a lane."""
        self.declared.append(f"{CTYPES[expr.dtype]} {name}[VEC];")
        self.lines += statement(f"{name}[k] = {code};")
        return Text(f"{name}[k]")


class AbreastVectors(AbreastKernel):
    """The kernel of rows that lie side by side in whole vectors."""

    row_at = "(row + k)"

    def __init__(self, site: Site, kernel: Kernel, name: str) -> None:
        super().__init__(site, kernel, name)
        self.frame.vector = True
        self.frame.divisors.add(self.space.rows)
        self.team = VectorTeam("bundle", site.schedule.threads)
        self.joined_bytes = 0
        self.waits = replace(self.waits, rows_each=True)
        self.rows = self.each = _EachRow(self._row_leaf, self.frame)

    def _row_leaf(self, expr: Expr) -> Text:
        if not (isinstance(expr, Load) and expr.lookups):
            return super()._row_leaf(expr)
        at = index_text(expr.view, self.row_at, self.frame.macros)
        index = lookup_text(expr, at, self.frame, self.rows.text)
        return self.frame.value(expr, self.frame.element(expr.buffer, index))

    def _rows(self, body: list[str]) -> list[str]:
        rows, columns = (self.frame.macros.text(size) for size in (self.space.rows, self.space.columns))
        return [
            *self.team.prologue,
            f"const bool idle = {self.team.first_row} >= {rows};  // then it takes part in joining only",
            f"const int row = idle ? {rows} - VEC : {self.team.first_row};",
            f"const int end = idle ? 0 : {columns};",
            *body,
        ]

    def _grid(self) -> str:
        return f"cdiv({self.site.size(self.space.rows)}, 32 * {{width}})"

    def _pass(self, number: int, step: Pass) -> list[str]:
        row_values = self._row_values(step.roots)
        texts = self._made = [self._accumulator(accumulator) for accumulator in step.accumulators]
        each = [replace(text, name=f"{text.name}[k]") for text in texts]
        declared = [f"{text.ctype} {text.name}[VEC];" for text in texts]
        starts = for_each([f"{text.name} = {text.start};" for text in each])
        loop = self._walk(number, row_values).text(step, each)
        joined = [f"{self.team.join(text.op, text.name)};" for text in texts]
        for text in each:
            self._join(text)
            members = sum(DTYPE_BYTES[dtype] for _, dtype in text.members)
            self.joined_bytes += self.team.threads * self.site.schedule.width * members
        gap = [""] if number else []
        return [*self._flush(), *gap, *declared, *starts, *loop, *joined]

    def _walk(self, number: int, row_values: dict[int, Text]) -> VectorLoop:
        return VectorLoop(self, number, row_values)

    def _flush(self) -> list[str]:
        declared, self.each.declared = self.each.declared, []
        return [*declared, *for_each(super()._flush())]

    def _row_stores(self) -> list[str]:
        stores = [store for store in self.kernel.stores if store.level == "row"]
        if not stores:
            return []
        for store in stores:
            self._mean_of_moments(store.value)
        self.rows.prepare(store.value for store in stores)
        packs, lines, after = list[str](), list[str](), list[str]()
        for store in stores:
            value = self.frame.stored(store.buffer, self.rows.text(store.value).code)
            if not is_unit(store.view):
                index = index_text(store.view, self.row_at, self.frame.macros)
                lines.append(f"{self.frame.element(store.buffer, index)} = {value};")
                continue
            pack = self.frame.names.new(f"{store.buffer}_pack")
            packs.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            lines.append(f"{pack}.at[k] = {value};")
            index = index_text(store.view, "row", self.frame.macros)
            after.append(f"store_at({self.frame.pointer(store.buffer)}, {index.code}, {pack});")
            self.frame.helpers.add("store_at")
            self.frame.use_vector(store.buffer, store.view)
        return [*self._flush(), *block(f"if ({self.leads})", [*packs, *for_each(lines), *after])]


class VectorLoop(ColumnLoop):
    """The walk of a warp over its turns at the columns."""

    def __init__(self, kernel: RowKernel, number: int, row_values: dict[int, Text]) -> None:
        super().__init__(kernel, number, row_values)
        self.vector = False

    def text(self, step: Pass, accumulators: list[AccumulatorText]) -> list[str]:
        """The loop; ``accumulators`` have an element for each row of a lane."""
        for load in self.kernel.space.column_loads(step.roots):
            hidden = load.serial in self._scope.bound or self._hidden(step.roots, load)
            if not hidden and is_unit(self.kernel.split(load.view)[0]):
                self._load_vector(load)
        self._keep_loads()
        self._keep_replacements()
        self._scope.prepare(step.roots)
        for text in accumulators:
            self._enter(text, "col")
        for store in step.stores:
            self._store(store)
        self._scope.lines = [*self._before, *for_each(self._scope.lines), *self._after]
        return self._loop()

    def _load_vector(self, load: Load) -> None:
        row_part, column_part = self.kernel.split(load.view)
        pack = self.names.new(f"{load.buffer}_pack")
        function = "load_once" if self._is_last_use(load) else "load"
        self.frame.helpers.add(function)
        address = self._address(load.buffer, row_part, column_part)
        self._before.append(f"const auto {pack} = {function}<VEC>({address});")
        self._packs[load.serial] = f"{pack}.at[k]"
        self.frame.use_vector(load.buffer, row_part)
        self.frame.use_rows(column_part)

    def _store(self, store: Store) -> None:
        row_part, column_part = self.kernel.split(store.view)
        schedule = self.kernel.site.schedule
        value = self.frame.stored(store.buffer, self._scope.text(store.value).code)
        pack = self.names.new(f"{store.buffer}_pack")
        self._before.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
        self._scope.lines += statement(f"{pack}.at[k] = {value};")
        if schedule.stream or schedule.stream_stores:
            line = f"store_once({self._address(store.buffer, row_part, column_part)}, {pack});"
        else:
            pointer = self.kernel.row_pointer(store.buffer, row_part)
            line = f"store_at({pointer}, {index_text(column_part, 'col', self.frame.macros).code}, {pack});"
        self.frame.helpers.add(line.partition("(")[0])
        self._after.append(line)
        self.frame.use_vector(store.buffer, row_part)
        self.frame.use_rows(column_part)


def abreast_vectors(site: Site, kernel: Kernel, name: str) -> KernelText | None:
    """Write it; None where sizes are such that no vector fits, or where too much would be joined."""
    width = site.schedule.width
    while width > 1:
        narrower = replace(site, schedule=replace(site.schedule, width=width))
        written = AbreastVectors(narrower, kernel, name)
        text = written.text()
        if written.joined_bytes <= MOST_JOINED:
            return text if text.width is not None and text.width.is_possible else None
        width //= 2
    return None
