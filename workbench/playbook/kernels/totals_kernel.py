"""Rows and the reduction over all of them in one launch: a loss without a kernel for its mean.

Owns its text. Each block strides over rows and carries along what they come to; the block that is done last
joins what all blocks have left (CUDA programming guide, "Memory Fence Functions"), or the last of the grid
hears it in words (told_parts.py). Which rows a block has depends on nothing but the sizes, so the result is
the same from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from workbench.model import H100
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_totals import entering
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.kernels.row_kernel import RowKernel
from workbench.playbook.kernels.split_launch import Partials
from workbench.playbook.kernels.team import TeamText
from workbench.playbook.kernels.told_parts import ToldParts, tellable
from workbench.playbook.schedules.schedule import RESIDENT, most_told
from workbench.playbook.text.scope import Scope

_LANES = 32
"""Of a warp."""
_SHORT_STEPS = 4
"""Vectors of a thread up to which a row is over in a few steps."""
_PARTS = 4
"""Blocks' parts that a thread asks for at once, if it has so many: a cold card fetches every copy."""


class _Tail(RowKernel):
    """The reduction over all rows, written into the kernel of these rows."""

    def __init__(self, rows: RowKernel, tail: Kernel) -> None:
        super().__init__(rows.site, tail, rows.name, vector=False)
        rows.frame.written = (*rows.frame.written, *self.frame.written)
        rows.frame.helpers |= self.frame.helpers
        self.frame = rows.frame
        self.team = TeamText("block", rows.site.schedule.threads)
        self.rows = Scope(self._row_leaf, self.frame.names, self.frame.macros, rows.site.schedule.fast_math)
        self.accumulators = self.passes[0].accumulators
        self.texts = [self._accumulator(one) for one in self.accumulators]

    def carried(self, team: TeamText) -> list[str]:
        """What one thread of each team has carried along, joined for the first of the block."""
        threads = self.team.threads
        if team.kind == "block" or team.rows_per_block == 1:
            return []
        if team.kind == "thread" or self.site.schedule.tree or team.rows_per_block > _LANES:
            return self.joined()
        lanes = threads // team.rows_per_block
        teams = "THREADS" if lanes == 1 else f"THREADS / {lanes}"
        places = [(text, self.frame.names.new(f"{text.name}_carried")) for text in self.texts]
        for text in self.texts:
            self._known(text)
        self.frame.helpers.add("warp_reduce")
        left = [f"{place}[threadIdx.x / {lanes}] = {text.name};" for text, place in places]
        found = f"threadIdx.x % ({teams})"
        return [
            "// One thread of each team has something: all leave it in shared memory, behind one barrier.",
            *(f"__shared__ {text.ctype} {place}[{teams}];" for text, place in places),
            *block(f"if ({team.leads})", left),
            "__syncthreads();",
            *(f"{text.name} = warp_reduce<{text.op}, {teams}>({place}[{found}]);" for text, place in places),
        ]

    def joined(self) -> list[str]:
        """What the threads of a block have, in every thread; later statements may ask for it."""
        return self._joins(self.texts)

    def stored(self) -> list[str]:
        """The results, by one thread."""
        return self._row_stores()


class TotalsKernel(RowKernel):
    """The kernel of rows whose values are only reduced further."""

    def __init__(self, site: Site, kernel: Kernel, name: str, vector: bool) -> None:
        super().__init__(site, kernel, name, vector)
        assert kernel.tail is not None
        self.frame.written = ()
        self.tail = _Tail(self, kernel.tail)
        self.partials = Partials(site)
        self._told = told = site.schedule.rows_told and tellable(self.tail.texts)
        self.words = self._words(name) if told else None
        if told:
            self.striding = "// Every team has a row; more where there are not words for so many blocks."
        self._parts = [] if told else [(text, self.partials.of(text)) for text in self.tail.texts]
        for name in (name for _, names in self._parts for name in names):
            self.frame.written = (name, *self.frame.written)

    def _words(self, name: str) -> ToldParts:
        return ToldParts(self.frame, name, self._entering(), "blocks", "", self._at_once)

    @property
    def _at_once(self) -> int:
        """Parts that a thread joins at declared sizes, up to ``_PARTS``: more would be code to fetch."""
        declared = self.site.cases[: self.site.declared]
        threads = [self.threads_at(case) for case in declared]
        each = [self._parts_at(case) / own for case, own in zip(declared, threads, strict=True)]
        most = max(each, default=H100.sm_count * H100.threads_per_sm / self.site.schedule.threads**2)
        return max(1, min(_PARTS, math.ceil(most)))

    def _parts_at(self, case: Mapping[str, int]) -> int:
        """Blocks of the launch: no more than there are rows for."""
        teams = math.ceil(self.space.rows.at(case) / self.team.rows_per_block)
        return min(teams, self.blocks_at(case))

    def _grid(self) -> str:
        return super()._grid() if self.words is None else f"min({self._blocks()}, {{most}})"

    def _blocks(self) -> str:
        """One at least: of no rows too there is a result."""
        blocks = super()._blocks()
        return f"max(1, {blocks})" if self.site.may_be_empty(self.space.rows) else blocks

    def _at_most(self) -> str:
        """Where warps compute rows, no block that finds no room at once: it would begin its rows too late.

        A block that tells its part need not stay, where a row is over in a few steps. A divergence of 65536
        rows of 128 takes 21.2 us so on an H200, and 22.2 with blocks that stay and count; with rows of 32000,
        whose blocks live long anyway, a cross entropy takes 139 and 134.
        """
        staying = super()._at_most()
        schedule, columns = self.site.schedule, self.space.columns
        if schedule.promised == RESIDENT:
            staying = staying.replace("gpu.threads_per_sm //", "gpu.threads_per_sm // 2 //")
        if self.words is None:
            return staying
        passing = str(most_told(schedule.threads))
        if columns.number is not None:
            return passing if columns.number <= self._short else staying
        return f"{passing} if {self.site.size(columns)} <= {self._short} else {staying}"

    @property
    def _short(self) -> int:
        """Columns up to which a row is over in a few steps."""
        schedule = self.site.schedule
        return schedule.threads // self.team.rows_per_block * schedule.width * _SHORT_STEPS

    def blocks_at(self, case: Mapping[str, int]) -> int:
        """As many as stay; more where they tell their part and end."""
        passes_by = self._told and self.space.columns.at(case) <= self._short
        return most_told(self.site.schedule.threads) if passes_by else super().blocks_at(case)

    def text(self) -> KernelText:
        """Write it."""
        text = super().text()
        if self.words is not None:
            return replace(text, code=f"{self.words.variable}\n{text.code}", most=self._at_most())
        counter = (
            "// Blocks that are done; zero between launches, of which one may run at a time.\n"
            f"__device__ unsigned int {self.name}_done[1];\n"
        )
        return replace(text, code=f"{counter}\n{text.code}", a_block=self.partials.all)

    def _entering(self) -> list[AccumulatorText]:
        """The tail's accumulators, with what a row adds to them as their operands."""
        pairs = zip(self.tail.texts, self.row_roots(), strict=True)
        return [replace(text, accumulator=replace(text.accumulator, operand=one)) for text, one in pairs]

    def row_roots(self) -> list[Expr]:
        """What a row adds to the sums over all of them."""
        pool = self.site.program.pool
        return [entering(pool, self.kernel, one.operand) for one in self.tail.accumulators]

    def _row_stores(self) -> list[str]:
        """In place of the values a row: each enters what this thread carries along."""
        operands = self.row_roots()
        for operand in operands:
            self._mean_of_moments(operand)
        self.rows.prepare(operands)
        pairs = list(zip(self.tail.texts, operands, strict=True))
        lines = [text.enter(self.rows.text(operand), "row") for text, operand in pairs]
        self.frame.helpers.update(text.helpers[0] for text in self.tail.texts)
        lines = [*self._flush(), *lines]
        return block(f"if ({self.leads})", lines) if self.leads else lines

    def _rows(self, body: list[str]) -> list[str]:
        """The loop over rows between what begins and what ends the sums over them."""
        comment = "// What the rows of this block come to; of each team one thread carries it along."
        begun = [comment, *(_start(text, declared=True) for text in self.tail.texts)]
        end = [*self._left(), "", *self._joined_by_last()] if self.words is None else self._heard(self.words)
        return [*begun, *super()._rows(body), "", *end]

    def _left(self) -> list[str]:
        """This block's part, in memory, by its first thread."""
        stores = [f"{self.frame.pointer(names[0])}[blockIdx.x] = {text.name};" for text, names in self._parts]
        return [*self.tail.carried(self.team), *block("if (threadIdx.x == 0)", stores)]

    def _joined_by_last(self) -> list[str]:
        """What a further launch would do, done by the block that is done last."""
        self.frame.helpers.add("arrives_last")
        return [
            "// The last block joins what all of them have left.",
            *block(f"if (!arrives_last({self.name}_done, gridDim.x))", ["return;"]),
            *(_start(text, declared=False) for text in self.tail.texts),
            *self._gathered(),
            *self.tail.joined(),
            *self.tail.stored(),
        ]

    def _gathered(self) -> list[str]:
        """All parts: several of a thread are on their way before the first is taken in."""
        parts = [(text, f"{self.frame.pointer(names[0])}[part]") for text, names in self._parts]
        at_once = self._at_once
        if at_once == 1:
            loop = "for (int part = threadIdx.x; part < int(gridDim.x); part += THREADS)"
            entered = [text.enter_partial([element]) for text, element in parts]
            return ["#pragma unroll 1", *block(loop, entered)]
        named = [(text, element, self.frame.names.new(f"{text.name}_part")) for text, element in parts]
        place = "const int part = from + i * THREADS;"
        asked = [
            f"{name}[i] = part < int(gridDim.x) ? {element} : {text.start};" for text, element, name in named
        ]
        each = f"for (int i = 0; i < {at_once}; ++i)"
        body = [
            *(f"{text.ctype} {name}[{at_once}];" for text, _, name in named),
            "#pragma unroll",
            *block(each, [place, *asked]),
            "#pragma unroll",
            *block(each, [text.enter_partial([f"{name}[i]"]) for text, _, name in named]),
        ]
        # A loop for many blocks; of few it runs once, and what is unrolled is code that a cold card fetches.
        head = f"for (int from = threadIdx.x; from < int(gridDim.x); from += {at_once} * THREADS)"
        return ["#pragma unroll 1", *block(head, body)]

    def _heard(self, told: ToldParts) -> list[str]:
        """The same by the last block of the grid; its own part is in its threads already."""
        tell = [*self.tail.carried(self.team), *told.tell("blockIdx.x", "threadIdx.x == 0"), "return;"]
        return [
            "const int blocks = gridDim.x;",
            *block("if (blockIdx.x != blocks - 1)", tell),
            "// The last block of the grid adds what all others tell to what its own threads have.",
            *told.hear(self.tail.texts),
            *self.tail.joined(),
            *self.tail.stored(),
        ]


def _start(text: AccumulatorText, declared: bool) -> str:
    return f"{f'{text.ctype} ' if declared else ''}{text.name} = {text.start};"


def totals_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of rows and of the reduction over them."""
    schedule = replace(site.schedule, persistent=True)
    if schedule.team != "block" and not schedule.promised:
        schedule = replace(schedule, promised=RESIDENT)
    site = replace(site, schedule=schedule)
    site.macros.name(kernel.stores[0].columns, "COLS")
    site.macros.name(kernel.stores[0].rows, "ROWS")
    text = TotalsKernel(site, kernel, name, site.schedule.width > 1).text()
    possible = text.width is None or text.width.is_possible
    return text if possible else TotalsKernel(site, kernel, name, vector=False).text()
