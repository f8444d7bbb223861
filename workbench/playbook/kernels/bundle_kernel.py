"""Columns of a matrix: a block sums up a bundle of neighbours, of which each thread reads a vector.

Owns the layout of a reduction whose elements lie far apart while those of neighbouring results lie side by
side. What a "row" is to the playbook, the elements of one result, is here a column of the matrix in memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.co_moments import MOMENTS
from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.ir.expr import Expr, Index, Load, unguarded
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.kernels.column_loop import ColumnLoop
from workbench.playbook.kernels.in_flight import Bounds, Fetch, Taken, loaded_ahead, names_ahead
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.kernels.split_launch import Partials, SplitKernel
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import statement

_AHEAD = 4
"""Vectors of a thread that are on their way together, where nothing else is asked for. A loop that is only
unrolled loads and adds in turn where its loads stream: 77.4 us instead of 70.8 for 8192 x 8192 on an H200."""
_GATHERED = 8
"""The same of the partial results, which lie in L2."""
_GATHERED_OF_FEW = 2
"""The same where bundles are narrow: a group has one or two of them, and code is fetched cold."""
_MOST_JOINED = 40 * 1024
"""Bytes in which groups are joined; a kernel has 48 KB of shared memory that it need not ask for."""
_EACH = "for (int k = 0; k < VEC; ++k)"


@dataclass(frozen=True)
class BundleTeam(TeamText):
    """A thread for each result, once the bundle's groups are joined."""

    rows: str = ""

    @property
    def leads(self) -> str:
        """The threads that have a result."""
        return f"threadIdx.x < BUNDLE && row < {self.rows}"

    @property
    def may_lack_row(self) -> bool:
        """All threads join the groups, also those beyond the last result."""
        return True


class BundleKernel(SplitKernel):
    """The launch of a split that reads: a block a bundle and piece."""

    def __init__(self, site: Site, kernel: Kernel, name: str, number: int, partials: Partials) -> None:
        super().__init__(site, kernel, name, number, partials)
        self.frame.vector = site.schedule.width > 1
        rows = self.frame.macros.text(self.space.rows)
        self.team = BundleTeam("thread", site.schedule.threads, rows)
        self.begin = self.end = ""
        self.frame.scalars = ("pieces",)
        self._joined_bytes: dict[str, int] = {}
        if self.frame.vector:
            self.frame.divisors.add(self.space.rows)
        self._across = "across_lines" if site.schedule.bundle_lanes else "across_groups"
        self.frame.helpers.update([self._across, "load"])

    def _piece(self) -> list[str]:
        """Nothing of its own: blocks take turns, as the groups of a block do."""
        return []

    @property
    def joined_bytes(self) -> int:
        """Shared memory in which the groups of a block are joined: once for each kind of what they join."""
        return sum(self._joined_bytes.values())

    def bundle_pointer(self, at: Load | Store) -> str:
        """Where the bundle's part of a buffer begins for this thread."""
        rows, _ = self.split(at.view)
        pointer = self.frame.pointer(at.buffer)
        name = self.frame.names.new(f"{pointer}_first")
        ctype = f"{'const ' if isinstance(at, Load) else ''}{self.frame.element_type(at.buffer)}"
        place = index_text(rows, "first", self.frame.macros)
        self._pointer_lines.append(f"{ctype}* {name} = {pointer} + {place.code};")
        return name

    def _rows(self, body: list[str]) -> list[str]:
        rows = self.frame.macros.text(self.space.rows)
        fixed = self.site.schedule.bundle_lanes
        lanes = str(fixed) if fixed else f"{rows} > 16 * VEC ? 32 : {rows} > 8 * VEC ? 16 : 8"
        return [
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            "// A bundle of neighbouring results a block: a group's threads read VEC neighbours each, and",
            "// the groups take turns at what the results are made of.",
            f"constexpr int LANES = {lanes};",
            "constexpr int BUNDLE = LANES * VEC, GROUPS = THREADS / LANES;",
            "const int group = threadIdx.x / LANES;",
            "const int first = blockIdx.x * BUNDLE + threadIdx.x % LANES * VEC;",
            "const int row = blockIdx.x * BUNDLE + threadIdx.x;",
            *body,
        ]

    def _grid(self) -> str:
        return f"cdiv({self.site.size(self.space.rows)}, {{bundle}})"

    def _pass(self, number: int, step: Pass) -> list[str]:
        texts = self._made = [self._accumulator(accumulator) for accumulator in step.accumulators]
        sums = [replace(text, name=self.frame.names.new(f"{text.name}_each")) for text in texts]
        entered = [replace(text, name=f"{text.name}[k]") for text in sums]
        loop = _BundleLoop(self, number, {}).text(step, entered)
        return [*self._begun(sums), *self._inside(loop), *self._joined(texts, sums)]

    def _gathered(self, texts: list[AccumulatorText]) -> list[str]:
        """Join what the pieces left in the layout in which they were read."""
        sums = [replace(text, name=self.frame.names.new(f"{text.name}_each")) for text in texts]
        rows = self.frame.macros.text(self.space.rows)
        names = self.frame.names.inner()
        loads, entered = [], []
        for text, each in zip(texts, sums, strict=True):
            packs = [names.new(f"{suffix or text.name}_pack") for suffix, _ in text.members]
            for pack, buffer in zip(packs, self.partials.of(text), strict=True):
                from_part = f"{self.frame.pointer(buffer)} + size_t(part) * {rows} + first"
                loads.append(f"const auto {pack} = load<VEC>({from_part});")
            member = replace(text, name=f"{each.name}[k]")
            entered.append(member.enter_partial([f"{pack}.at[k]" for pack in packs]))
        loop = [
            f"#pragma unroll {_GATHERED_OF_FEW if self.site.schedule.bundle_lanes else _GATHERED}",
            *block(
                "for (int part = group; part < pieces; part += GROUPS)",
                [*loads, "#pragma unroll", *block(_EACH, entered)],
            ),
        ]
        return [*self._flush(), *self._begun(sums), *self._inside(loop), *self._joined(texts, sums)]

    def _begun(self, sums: list[AccumulatorText]) -> list[str]:
        lines = [f"{text.ctype} {text.name}[VEC];" for text in sums]
        starts = [f"{text.name}[k] = {text.start};" for text in sums]
        return [*lines, "#pragma unroll", *block(_EACH, starts)]

    def _inside(self, loop: list[str]) -> list[str]:
        return block(f"if (first < {self.frame.macros.text(self.space.rows)})", loop)

    def _joined(self, texts: list[AccumulatorText], sums: list[AccumulatorText]) -> list[str]:
        lines = []
        for text, each in zip(texts, sums, strict=True):
            columns = self.frame.macros.text(self.space.columns)
            for key, result in zip(text.accumulator.keys, text.results(columns), strict=True):
                self._results[key] = result
            self.frame.helpers.update(text.helpers[:1])
            members = sum(DTYPE_BYTES[dtype] for _, dtype in text.members)
            width = self.site.schedule.width if self.frame.vector else 1
            self._joined_bytes[text.op + text.ctype] = self.site.schedule.threads * width * members
            lines.append(f"{text.ctype} {text.name} = {self._across}<{text.op}, LANES>({each.name});")
        return lines


class _BundleLoop(ColumnLoop):
    """The walk of a group over its turns."""

    kernel: BundleKernel

    def __init__(self, kernel: RowKernel, number: int, row_values: dict[int, object]) -> None:
        super().__init__(kernel, number, {})
        self.vector = False
        self._side_by_side = names_ahead(self.names, _AHEAD * kernel.site.schedule.items)
        self._of_results = list[Fetch]()
        """Vectors that are the same at each of its turns, as the means that are subtracted."""

    def text(self, step: Pass, accumulators: list[AccumulatorText]) -> list[str]:
        """The loop; ``accumulators`` have an element for each of the vector."""
        leaves = {leaf.serial: leaf for root in step.roots for leaf in unguarded(root)}
        for _, leaf in sorted(leaves.items()):
            if isinstance(leaf, Load) and is_unit(self.kernel.split(leaf.view)[0]):
                self._load_pack(leaf)
        self._scope.prepare(step.roots)
        held, entered = list[str](), list[str]()
        for text in accumulators:
            value, *other = [self._scope.text(operand) for operand in text.accumulator.operands]
            if text.accumulator.kind in MOMENTS:
                arrays = [self.names.new(stem) for stem in ("values", "others")[: 1 + len(other)]]
                held += [f"float {array}[VEC][{self._side_by_side.items}];" for array in arrays]
                for array, operand in zip(arrays, (value, *other), strict=True):
                    self._scope.lines.append(f"{array}[k][i] = {operand.code};")
                entered.append(text.enter_several([f"{a}[k]" for a in arrays], self._side_by_side.there))
                self.frame.helpers.add(f"{text.accumulator.kind}_several")
            else:
                self._scope.lines.append(text.enter(value, "col", *other))
        packs, left = list[str](), list[str]()
        for store in step.stores:
            pack, line = self._leave_pack(store)
            packs.append(pack)
            left.append(line)
        each = [*packs, "#pragma unroll", *block(_EACH, self._scope.lines), *left]
        after = ["#pragma unroll", *block(_EACH, entered)] if entered else []
        taken = Taken(self._fetches, held, each, after)
        columns = self.frame.macros.text(self.kernel.space.columns)
        turn = self.names.new("turn")
        return [
            *(fetch.line for fetch in self._of_results),
            f"const int {turn} = blockIdx.y * GROUPS + group;",
            *self._side_by_side.constants("pieces * GROUPS", columns, len(self._fetches)),
            *loaded_ahead(taken, Bounds("", columns, turn), self._side_by_side, []),
        ]

    def _leave_pack(self, store: Store) -> tuple[str, str]:
        """A vector of what is stored on the way, and the statement that stores it."""
        schedule = self.kernel.site.schedule
        value = self.frame.stored(store.buffer, self._scope.text(store.value).code)
        pack = self.names.new(f"{store.buffer}_pack")
        self._scope.lines += statement(f"{pack}.at[k] = {value};")
        function = "store_once" if schedule.stream or schedule.stream_stores else "store"
        self.frame.helpers.update([function, "pack"])
        declared = f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};"
        return declared, f"{function}({self._bundle_place(store)}, {pack});"

    def _bundle_place(self, at: Load | Store) -> str:
        """The address of a thread's vector at ``col``."""
        rows, columns = self.kernel.split(at.view)
        place = index_text(columns, "col", self.frame.macros)
        if self.frame.vector:
            self.frame.use_vector(at.buffer, rows)
            self.frame.use_rows(columns)
        first = self.kernel.bundle_pointer(at)
        return first if place.code == "0" else f"{first} + {place.within(13)}"

    def _leaf(self, expr: Expr) -> Text:
        """Of element ``k``: from its vector, or by the number of its row."""
        if not isinstance(expr, (Load, Index)) or expr.serial in self._packs:
            return super()._leaf(expr)
        row, column = self.kernel.split(expr.view)
        if row.is_constant:
            return super()._leaf(expr)
        own = index_text(row, "(first + k)", self.frame.macros)
        places = [
            part.code for part in (own, index_text(column, "col", self.frame.macros)) if part.code != "0"
        ]
        at = " + ".join(places) or "0"
        if isinstance(expr, Index):
            return Text(at, SUM if len(places) > 1 else own.strength)
        return self.frame.value(expr, f"{self.frame.pointer(expr.buffer)}[{at}]")

    def _load_pack(self, load: Load) -> None:
        pack = self.names.new(f"{load.buffer}_pack")
        address = self._bundle_place(load)
        function = "load_once" if self.kernel.site.schedule.stream and self.frame.vector else "load"
        self.frame.helpers.add(function)
        ctype = self.frame.element_type(load.buffer)
        fetch = Fetch(pack, ctype, f"{function}<VEC>({address})")
        of_results = not re.search(r"\bcol\b", address)
        (self._of_results if of_results else self._fetches).append(fetch)
        self._packs[load.serial] = f"{pack}.at[k]" if of_results else f"{pack}[i].at[k]"


def bundle_kernel(site: Site, kernel: Kernel, name: str, number: int, partials: Partials) -> KernelText:
    """Write it, with vectors where sizes allow them, and as wide as what is joined has room for."""
    width = site.schedule.width
    while width > 1:
        narrower = replace(site, schedule=replace(site.schedule, width=width))
        written = BundleKernel(narrower, kernel, name, number, partials)
        text = written.text()
        if written.joined_bytes <= _MOST_JOINED:
            if text.width is None or text.width.is_possible:
                return text
            break
        width //= 2
    narrow = replace(site, schedule=replace(site.schedule, width=1))
    return BundleKernel(narrow, kernel, name, number, partials).text()
