"""Kernels that reduce along rows and store a value a row, a value a column, or both.

Owns the text of multi-stage reductions: softmax, norms and losses are all made here, none by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import H100, DType
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import (
    Accumulator,
    Pass,
    RowSpace,
    Waiting,
    is_count,
    passes_of,
    waiting_loads,
)
from workbench.playbook.analysis.shared_divisors import row_divisions
from workbench.playbook.ir.expr import Apply, Expr, Index, Load, Reduction, unguarded, walk
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.views import View, split
from workbench.playbook.kernels.column_loop import ColumnLoop
from workbench.playbook.kernels.early_loads import early_loads, short_enough
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.kernels.next_row import NextRow
from workbench.playbook.kernels.odd_rows import Peeling, peeling_of
from workbench.playbook.kernels.row_needs import RowNeeds
from workbench.playbook.kernels.team import TeamText, team_of
from workbench.playbook.kernels.waits import Waits
from workbench.playbook.schedules.schedule import fit_text, fit_threads
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope, stem_of


@dataclass(frozen=True)
class Turned:
    """An access along rows by a team that computes across them, through a tile of shared memory."""

    place: str
    """Where the element at hand is in the tile."""
    each: tuple[str, ...]
    """Statements of each step: of an input before it is used, of a result after it is made."""
    ahead: tuple[str, ...] = ()
    """Statements before the walk, which have all reads of an input on their way."""


class RowKernel:
    """One kernel being written; ``text`` gives the result."""

    in_order = True
    """Each thread takes its columns in from the first to the last, but for one beside the vectors."""
    takes_together = True
    """What waits of several loads may be one value: not all of them are asked for beforehand."""
    arriving: type[NextRow] = NextRow
    """How the next row is copied ahead, where it is."""
    begin = ""
    """First column of the team's piece; empty when a team has the whole row."""
    end = ""
    row_at = "row"
    """The row at hand, as part of an index."""
    unrolled = ""
    """How the compiler is told to write out columns, where it is."""
    striding = "// A grid that fits the GPU once: every team strides over the rows."
    """Why a loop over rows stands around them."""

    def __init__(
        self, site: Site, kernel: Kernel, name: str, vector: bool, frame: Frame | None = None
    ) -> None:
        kernel = row_divisions(site.program.pool, kernel, site.schedule.fast_math)
        self.site = site
        self.name = name
        self.kernel = kernel
        self.space = RowSpace(site.program.pool, kernel)
        self.passes = passes_of(self.space, kernel, site.schedule.single_pass)
        self.team: TeamText = team_of(site.schedule)
        self.frame: Frame = frame or frame_for(site, kernel, vector and self._any_unit_load())
        self._pointers: dict[tuple[str, View], str] = {}
        self._pointer_lines: list[str] = []
        self._results: dict[int, Text] = {}
        self._made: list[AccumulatorText] = []
        self._bordered = False
        self.rows = Scope(self._row_leaf, self.frame.names, self.frame.macros, site.schedule.fast_math)
        cache = site.schedule.cache
        together = self.takes_together and not site.schedule.prefetch
        waiting = waiting_loads(self.space, self.passes, together) if cache != "reread" else []
        self.peeling = self._peeling()
        self.waits = Waits.of(waiting, cache, self.frame, self.peeling is not None)
        self.early = self._early(waiting)
        self.needs = RowNeeds(self)
        self.next_row = self.arriving(self.frame, self.space, waiting if site.schedule.prefetch else [])

    # -------------------------------------------------------------------------------- the function

    def text(self) -> KernelText:
        """Write it."""
        body = self.body()
        columns = self.frame.macros.text(self.space.columns)
        declared = [
            f"Pack<{self.frame.element_type(load.buffer)}, VEC> {name}[KEPT];" for load, name in self.early
        ]
        arrived = self.next_row.at_row_start() if self.next_row else []
        lines = [
            *self._pointer_lines,
            *self.waits.declarations(self.team, columns),
            *declared,
            *arrived,
            *body,
        ]
        limits = self.waits.limits(self.team, self.site.factor(self.space.columns), self.site.schedule.fit)
        if self.next_row:
            limits = replace(limits, shared=self._arriving_bytes())
        rows = self.site.size(self.space.rows)
        fit = fit_text(self.site.at_least_one(self.space.columns), rows) if self.site.schedule.fit else ""
        text = self.frame.finish(self.name, self._rows(lines), self._grid(), limits, fit)
        return replace(text, resident=self._resident()) if self.next_row else text

    def body(self) -> list[str]:
        """What is done for each row."""
        body = self.needs.before_walk()
        for number, step in enumerate(self.passes):
            body += self._pass(number, step)
        return [*body, *self._row_stores()]

    def row_roots(self) -> list[Expr]:
        """What is stored a row."""
        return [store.value for store in self.kernel.stores if store.level == "row"]

    def _early(self, waiting: list[Waiting]) -> list[tuple[Load, str]]:
        """What later passes read of every row, where its loads begin before the row's own; with names."""
        schedule, declared = self.site.schedule, self.site.cases[: self.site.declared]
        if not (schedule.early and schedule.cache == "registers" and self.frame.vector):
            return []
        if (
            self.begin
            or self.peeling
            or schedule.prefetch
            or not short_enough(self.space, schedule, declared)
        ):
            return []
        loads = early_loads(self.space, self.passes, waiting)
        return [(load, self.frame.names.new(f"{load.buffer}_early")) for load in loads]

    def _rows(self, body: list[str]) -> list[str]:
        """The loop over rows, or the one row of the team."""
        team = self.team
        lines = [*team.prologue]
        if self._in_step:
            return [*lines, *self._rows_in_step(body)]
        if self.site.schedule.persistent:
            step = f"gridDim.x * {team.rows_per_block}" if team.rows_per_block > 1 else "gridDim.x"
            rows = self.frame.macros.text(self.space.rows)
            head = f"for (int row = {team.first_row}; row < {rows}; row += {step})"
            ahead = self.next_row.before_rows() if self.next_row else []
            return [*lines, *ahead, *self.needs.before_rows(), self.striding, *block(head, body)]
        lines += [] if self.begin else [team.comment]
        if team.rows_per_block > 1 or any(re.search(r"\brow\b", line.split("//")[0]) for line in body):
            lines.append(f"const int row = {team.first_row};")
        if team.rows_per_block > 1:
            lines += block(f"if (row >= {self.frame.macros.text(self.space.rows)})", ["return;"])
        return [*lines, *body]

    @property
    def asks_behind(self) -> int:
        """The pass whose walk is over when a row's results are asked for what is looked up."""
        return 0

    @property
    def _in_step(self) -> bool:
        """True where rows share a warp that strides over rows: all of its lanes must come to each shuffle."""
        return self.site.schedule.persistent and self.team.kind == "warp" and self.team.lanes_of_warp < 32

    def _rows_in_step(self, body: list[str]) -> list[str]:
        """A loop that all groups of lanes go round equally often; one behind the last row stores nothing."""
        team, rows = self.team, self.frame.macros.text(self.space.rows)
        here = f"base_row + int(threadIdx.x) / {team.lanes}"
        own = [f"const bool has_row = {here} < {rows};", f"const int row = has_row ? {here} : {rows} - 1;"]
        first, step = (f"{at} * {team.rows_per_block}" for at in ("blockIdx.x", "gridDim.x"))
        head = f"for (int base_row = {first}; base_row < {rows}; base_row += {step})"
        return [team.comment, *block(head, [*own, *body])]

    def _grid(self) -> str:
        blocks = self._blocks()
        return f"min({blocks}, {self._at_most()})" if self.site.schedule.persistent else blocks

    def _at_most(self) -> str:
        """Blocks that stay for all rows: as many as the card has room for at once."""
        if self.next_row:
            return "gpu.sm_count * max(1, {resident})"
        threads = "{threads}" if self.site.schedule.fit else str(self.team.threads)
        return f"gpu.sm_count * (gpu.threads_per_sm // {threads})"

    def _blocks(self) -> str:
        """As many as have a row each, or as many rows as their teams."""
        rows = self.site.size(self.space.rows)
        return rows if self.team.rows_per_block == 1 else f"cdiv({rows}, {self.team.rows_per_block})"

    def blocks_at(self, case: Mapping[str, int]) -> int:
        """Blocks of one row at a time that stay, on an H100."""
        return H100.sm_count * (H100.threads_per_sm // self.threads_at(case))

    def threads_at(self, case: Mapping[str, int]) -> int:
        """Threads of a block."""
        schedule = self.site.schedule
        sizes = self.space.columns.at(case), self.space.rows.at(case)
        return fit_threads(*sizes) if schedule.fit else schedule.threads

    def _arriving_bytes(self) -> str:
        return f"{self.site.factor(self.space.columns)} * {self.next_row.bytes_a_column}"

    def _resident(self) -> str:
        """Blocks that stay on a multiprocessor: half of its threads, as each keeps many values."""
        threads = "{threads}" if self.site.schedule.fit else str(self.team.threads)
        shared = f"gpu.shared_bytes_per_sm // ({self._arriving_bytes()} + 2048)"
        return f"min(gpu.threads_per_sm // (2 * {threads}), {shared})"

    # -------------------------------------------------------------------------------- passes

    def _peeling(self) -> Peeling | None:
        if not self.frame.vector:
            return None
        return peeling_of(self.site.schedule, self.space, self.passes, self.site.cases[: self.site.declared])

    def _edges(
        self, number: int, step: Pass, row_values: dict[int, Text], texts: list[AccumulatorText]
    ) -> tuple[list[str], list[str]]:
        """The columns beside the vectors: what comes before the walk, and what comes behind it.

        Where vectors begin and end is written once, before the passes.
        """
        if self.peeling is None:
            return [], []
        if not self._bordered:
            borders = self.peeling.borders(self.frame.macros, self.team.lane, self.begin, self.end)
            self._pointer_lines += borders
            self._bordered = True
        entered = [replace(text, name=text.name.replace("[k]", "[0]")) for text in texts]
        loop = ColumnLoop(self, number, row_values, edge=True)
        lines = loop.text(step, entered)
        if not loop.asked:
            return lines, []
        comment = "// Asked for before the walk, taken in behind it: nobody waits for the lanes that have it."
        return [*([comment] if lines else []), *loop.asked], lines

    def _behind(
        self, number: int, step: Pass, row_values: dict[int, Text], texts: list[AccumulatorText]
    ) -> list[str]:
        """The columns behind those that wait on the chip; mostly there are none."""
        return []

    def _pass(self, number: int, step: Pass) -> list[str]:
        row_values = self._row_values(step.roots)
        texts = self._made = [self._accumulator(accumulator) for accumulator in step.accumulators]
        loop = ColumnLoop(self, number, row_values)
        lines = [f"{text.ctype} {text.name} = {text.start};" for text in texts]
        entered, after = texts, list[str]()
        if self.site.schedule.chains and self.frame.vector and texts:
            entered, before, after = self._chained(texts)
            lines = before
        if number == 0 and self.early:
            lines = [*loop.begun(), *lines]
        beside = self._beside(entered)
        lines += [f"{text.ctype} {text.name} = {text.start};" for text in beside.values()]
        asked, taken = self._edges(
            number, step, row_values, [beside.get(text.name, text) for text in entered]
        )
        lines += [*asked, *self._behind(number, step, row_values, entered)]
        begun = self._flush()
        asked_late = self.needs.behind_walk() if number == self.asks_behind else []
        if self.needs.goes_with_last_step():
            loop.meanwhile, asked_late = asked_late, []
        lines += [*loop.text(step, entered), *loop.meanwhile, *taken, *asked_late]
        for name, text in beside.items():
            whole = name.replace("[k]", "[0]")
            lines.append(f"{whole} = {text.op}::join({whole}, {text.name});")
        if self.next_row and number == 0:
            lines += self.next_row.after_first_pass()
        lines += after
        begun += self._flush()
        lines += self._before_joins()
        joined = self._joins(texts)
        gap = [""] if number else []
        return [*begun, *gap, *lines, *joined]

    def _before_joins(self) -> list[str]:
        """What else the threads of a team take in, when all columns are."""
        return []

    def _beside(self, texts: list[AccumulatorText]) -> dict[str, AccumulatorText]:
        """Places that a lane's column beside the vectors is taken into by itself: it is out of order."""
        apart = self.peeling is not None and self.in_order
        places = [t for t in texts if apart and t.accumulator.kind.startswith("arg")]
        stems = {t.name: t.name.removesuffix("[k]") for t in places}
        return {t.name: replace(t, name=self.frame.names.new(f"{stems[t.name]}_beside")) for t in places}

    def _chained(self, texts: list[AccumulatorText]) -> tuple[list[AccumulatorText], list[str], list[str]]:
        """An accumulator for each element of a vector: as they are entered, declared, and joined."""
        entered, before, after = [], [], []
        comment = "// A chain of its own for each element of a vector; they are joined after the loop."
        for text in texts:
            parts = self.frame.names.new(f"{text.name}_chains")
            entered.append(replace(text, name=f"{parts}[k]"))
            each = [f"{parts}[k] = {text.start};"]
            before += [f"{text.ctype} {parts}[VEC];", "#pragma unroll", *block(_EACH, each)]
            joins = [f"{text.name} = {text.op}::join({text.name}, {parts}[k]);"]
            from_second = _EACH.replace("k = 0", "k = 1")
            after += [f"{text.ctype} {text.name} = {parts}[0];", "#pragma unroll", *block(from_second, joins)]
            self.frame.helpers.update(text.helpers[:1])
        return entered, [comment, *before], after

    def _accumulator(self, accumulator: Accumulator) -> AccumulatorText:
        arg = accumulator.kind.startswith("arg")
        reduction = self._reduction(accumulator.keys[0 if arg else -1])
        stem = _STEMS.get(accumulator.kind) or stem_of(reduction)
        dtype: DType = reduction.dtype
        if arg:
            dtype = accumulator.operand.dtype
        return AccumulatorText(accumulator, dtype, self.frame.names.new(stem))

    def _joins(self, texts: Sequence[AccumulatorText]) -> list[str]:
        """What the threads of a team have of each, in all of them; a block's two at a time."""
        lines, left = list[str](), list(texts)
        while left:
            text = left.pop(0)
            both = ""
            if left and not self.site.schedule.tree:
                both = self.team.join_both((text.op, left[0].op), (text.name, left[0].name))
            if both:
                self._known(text)
                self._known(left.pop(0))
                self.frame.helpers.add("block_reduce_both")
                lines.append(both)
            else:
                lines += self._join(text)
        return lines

    def _join(self, text: AccumulatorText) -> list[str]:
        self._known(text)
        helper = self.team.helper(self.site.schedule.tree)
        if not helper:
            return []
        self.frame.helpers.add(helper)
        return [f"{text.name} = {self.team.join(text.op, text.name)};"]

    def _known(self, text: AccumulatorText) -> None:
        """From here on its results are; and what joining takes."""
        columns = self.frame.macros.text(self.space.columns)
        for key, result in zip(text.accumulator.keys, text.results(columns), strict=True):
            self._results[key] = result
        shuffled = self.team.kind in ("warp", "block")
        self.frame.helpers.update(
            h for h in text.helpers if shuffled or h in _USED_ALONE or h == text.helpers[0]
        )

    def _reduction(self, key: int) -> Reduction:
        for store in self.kernel.stores:
            for expr in walk(store.value, into_reductions=True):
                if isinstance(expr, Reduction) and expr.key == key:
                    return expr
        raise KeyError(key)

    # -------------------------------------------------------------------------------- values a row

    def _row_values(self, roots: list[Expr]) -> dict[int, Text]:
        """Name what the pass needs that is one value a row; by the serial it has at full level."""
        forms: dict[int, Expr] = {}
        for root in roots:
            for part in self.space.row_parts(root):
                form = self.space.row_form(part)
                assert form is not None
                self._mean_of_moments(form)
                forms[part.serial] = form
        self.rows.prepare(forms.values())
        return {serial: self._named(form) for serial, form in forms.items()}

    def _named(self, form: Expr) -> Text:
        if form.serial in self.rows.bound:
            return self.rows.bound[form.serial]
        if isinstance(form, Reduction):
            return self._row_leaf(form)
        self.rows.prepare([form])
        return self.rows.bound.get(form.serial) or self.rows.name(form)

    def _mean_of_moments(self, form: Expr) -> None:
        """Welford's accumulator already holds the mean: no need to multiply and divide by the count."""
        for part in walk(form):
            match part:
                case Apply(op="div", args=(Reduction(key=key), count)) if is_count(self.space, count):
                    result = self._results.get(key)
                    if result and "mean *" in result.code:
                        self.rows.bound[part.serial] = Text(result.code.split(" ")[0])

    def result(self, reduction: Reduction) -> Text:
        """A reduction that an earlier pass made."""
        return self._results[reduction.key]

    def _row_leaf(self, expr: Expr) -> Text:
        if isinstance(expr, Reduction):
            return self.result(expr)
        assert isinstance(expr, (Load, Index))
        base = index_text(expr.view, self.row_at, self.frame.macros)
        if isinstance(expr, Index):
            return base
        if expr.lookups:
            pointer = self.row_pointer(expr.buffer, expr.view)
            index = lookup_text(expr, Text("0"), self.frame, self.rows.text)
            return self.frame.value(expr, f"{pointer}[{index.code}]")
        return self.frame.value(expr, self.frame.element(expr.buffer, base))

    def _flush(self) -> list[str]:
        lines, self.rows.lines = self.rows.lines, []
        return lines

    # -------------------------------------------------------------------------------- memory

    def row_pointer(self, buffer: str, row_view: View) -> str:
        """A pointer to the row's first element in a buffer."""
        index = index_text(row_view, "row", self.frame.macros)
        pointer = self.frame.pointer(buffer)
        if index.code == "0":
            return pointer
        key = (buffer, row_view)
        if key not in self._pointers:
            name = self.frame.names.new(f"{pointer}_row")
            const = "" if buffer in self.frame.written else "const "
            ctype = self.frame.element_type(buffer)
            self._pointer_lines.append(f"{const}{ctype}* {name} = {pointer} + {index.code};")
            self._pointers[key] = name
        return self._pointers[key]

    def split(self, view: View) -> tuple[View, View]:
        """A full-level view as a row part and a column part."""
        return split(view, self.space.rows, self.space.columns)

    def turned_store(self, store: Store, stream: bool) -> Turned | None:
        """How a result is written through a tile; mostly it is not."""
        return None

    def turned_load(self, load: Load) -> Turned | None:
        """How an input is read through a tile, or out of a table; mostly it is not."""
        return None

    @property
    def leads(self) -> str:
        """Condition of the thread that stores a value a row."""
        return f"has_row && {self.team.leads}" if self._in_step else self.team.leads

    def _stored_rows(self) -> list[str]:
        """What stores the values a row; what it is made of is left to be flushed."""
        stores = [store for store in self.kernel.stores if store.level == "row"]
        for store in stores:
            self._mean_of_moments(store.value)
        self.rows.prepare(store.value for store in stores)
        lines = []
        for store in stores:
            index = index_text(store.view, self.row_at, self.frame.macros)
            value = self.frame.stored(store.buffer, self.rows.text(store.value).code)
            lines.append(f"{self.frame.element(store.buffer, index)} = {value};")
        return lines

    def _row_stores(self) -> list[str]:
        lines = self._stored_rows()
        if not lines:
            return []
        before = self._flush()
        if self.team.may_lack_row:
            return block(f"if ({self.leads})", [*before, *lines])
        return [*before, *(block(f"if ({self.leads})", lines) if self.leads else lines)]

    def _any_unit_load(self) -> bool:
        return any(
            isinstance(leaf, Load) and not leaf.lookups and self._is_unit(leaf.view)
            for step in self.passes
            for root in step.roots
            for leaf in unguarded(root)
        )

    def _is_unit(self, view: View) -> bool:
        column = self.split(view)[1]
        return bool(column.axes) and column.axes[-1].stride.is_one


_EACH = "for (int k = 0; k < VEC; ++k)"
_STEMS = {
    "softmax": "running",
    "logsum": "running",
    "welford": "moments",
    "co_moments": "moments",
    "weighted": "weighted",
    "distances": "distances",
    "divergence": "divergence",
    "divergence_open": "divergence",
}
"""Names of accumulators that make several reductions at once."""
_USED_ALONE = frozenset(["max", "min", "argmax", "argmin", *_STEMS])
"""Structs whose functions accumulate even when no threads are joined."""


def row_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of stores over the same (rows, columns)."""
    site.macros.name(kernel.stores[0].columns, "COLS")
    site.macros.name(kernel.stores[0].rows, "ROWS")
    text = RowKernel(site, kernel, name, site.schedule.width > 1).text()
    possible = text.width is None or text.width.is_possible
    return text if possible else RowKernel(site, kernel, name, vector=False).text()
