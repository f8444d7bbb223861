"""Sums down columns that lie side by side, weighed alike: a lane makes a weight, its neighbours are told.

Owns the text of such a kernel. shared_weights.py says which weights those are; abreast_vectors.py has the
layout, in which a lane has VEC neighbouring rows and warps take turns at the columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.model import DType
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.row_passes import Pass
from workbench.playbook.analysis.shared_weights import SharedWeights, weights_of
from workbench.playbook.ir.expr import Expr, Index, Load, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.abreast_vectors import AbreastVectors, VectorLoop, for_each
from workbench.playbook.kernels.in_flight import Fetch
from workbench.playbook.kernels.kernel_text import Site, block, lookup_text
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import Scope, statement, stem_of

AHEAD = 4
"""Columns of a warp that are on their way together; more where ``loads_in_flight`` says so."""
_SHUFFLED: Mapping[DType, str] = {"f64": "double", "f32": "float", "i64": "long long"}
"""What shuffles hand round as it is; every other number fits in an int."""
_OWN_NAMES = ("SHARE", "OWN", "AHEAD", "take", "from", "left", "here", "done")
"""Names of the kernel's own, which nothing else may have."""


class WeightsKernel(AbreastVectors):
    """The kernel being written."""

    first = "group"
    """The first column of a warp."""
    apart = "GROUPS"
    """Columns from one of its turns to the next."""

    def __init__(self, site: Site, kernel: Kernel, name: str) -> None:
        super().__init__(site, kernel, name)
        found = weights_of(site.program.pool, self.kernel)
        assert found is not None
        self.shared: SharedWeights = found
        self.ahead = AHEAD * site.schedule.items
        self.frame.vector = site.schedule.width > 1
        self.frame.divisors.add(found.neighbours)
        for word in _OWN_NAMES:
            self.frame.names.new(word)
        below = {part.serial for one in found.parts for part in walk(one)}
        self._below = frozenset(below)
        self._of_group = Scope(self._group_leaf, self.frame.names, self.frame.macros, site.schedule.fast_math)

    def _walk(self, number: int, row_values: dict[int, Text]) -> VectorLoop:
        return _WeightsLoop(self, number, row_values)

    def _rows(self, body: list[str]) -> list[str]:
        rows = self.frame.macros.text(self.space.rows)
        return [
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            *self.team.prologue,
            f"const bool idle = {self.team.first_row} >= {rows};  // then it takes part in joining only",
            f"const int row = idle ? {rows} - VEC : {self.team.first_row};",
            *body,
        ]

    def _row_values(self, roots: list[Expr]) -> dict[int, Text]:
        """Values that each row has of its own; those of the weights are the neighbours' in common."""
        parts = {part.serial: part for root in roots for part in self.space.row_parts(root)}
        found: dict[int, Text] = {}
        for serial, part in parts.items():
            if serial not in self._below and (form := self.space.row_form(part)) is not None:
                found[serial] = self._named(form)
        return found

    def group_values(self) -> tuple[list[str], dict[int, Text]]:
        """Statements for what the weights need that is one value for all columns; its names by serial."""
        found: dict[int, Text] = {}
        for one in self.shared.parts:
            for part in self.space.row_parts(one):
                form = self.space.row_form(part)
                assert form is not None
                self._of_group.prepare([form])
                known = self._of_group.bound.get(form.serial)
                found[part.serial] = known or self._of_group.name(form)
        return self._of_group.lines, found

    def _group_leaf(self, expr: Expr) -> Text:
        """A value a row, found by the lane's first."""
        assert isinstance(expr, (Load, Index))
        at = index_text(expr.view, "row", self.frame.macros)
        if isinstance(expr, Index):
            return at
        index = lookup_text(expr, at, self.frame, self._of_group.text) if expr.lookups else at
        return self.frame.value(expr, self.frame.element(expr.buffer, index))


class _WeightsLoop(VectorLoop):
    """The walk of a warp over its turns at the columns, as many at a time as its lanes make weights of."""

    kernel: WeightsKernel

    def text(self, step: Pass, accumulators: list[AccumulatorText]) -> list[str]:
        """The loop; ``accumulators`` have an element for each row of a lane."""
        self._told: list[str] = []
        before, made = self._weights()
        for load in self.kernel.space.column_loads(step.roots):
            known = load.serial in self._scope.bound or self._hidden(step.roots, load)
            if not known and is_unit(self.kernel.split(load.view)[0]):
                self._load_vector(load)
        self._scope.prepare(step.roots)
        for text in accumulators:
            self._enter(text, "col")
        return [*before, *self._constants(), *self._turns(made)]

    def _weights(self) -> tuple[list[str], list[str]]:
        """Statements before the walk, and those in which a lane makes weights; these get names."""
        kernel = self.kernel
        before, bound = kernel.group_values()
        fast = kernel.site.schedule.fast_math
        scope = Scope(self._leaf, self.names, self.frame.macros, fast, bound)
        scope.prepare(kernel.shared.parts)
        declared, made = list[str](), list[str]()
        for part in kernel.shared.parts:
            name = self.names.new(_stem(part))
            own = self.names.new(f"own_{name}")
            declared.append(f"{_SHUFFLED.get(part.dtype, 'int')} {own}[OWN] = {{}};")
            made += statement(f"{own}[j] = {scope.text(part).code};")
            told = f"__shfl_sync(0xffffffff, {own}[i / SHARE % OWN], from + i, SHARE)"
            self._told.append(f"const {CTYPES[part.dtype]} {name} = {told};")
            self._scope.bound[part.serial] = Text(name)
        columns = self.frame.macros.text(kernel.space.columns)
        col = f"const int col = begin + (j * SHARE + int(threadIdx.x) % SHARE) * {kernel.apart};"
        each = [col, *block(f"if (col < {columns})", [*scope.lines, *made])]
        lines = [*declared, "#pragma unroll", *block("for (int j = 0; j < OWN; ++j)", each)]
        return before, lines

    def _load_vector(self, load: Load) -> None:
        row_part, column_part = self.kernel.split(load.view)
        pack = self.names.new(f"{load.buffer}_pack")
        function = "load_once" if self._is_last_use(load) else "load"
        self.frame.helpers.update([function, "pack"])
        address = self._address(load.buffer, row_part, column_part)
        self._fetches.append(Fetch(pack, self.frame.element_type(load.buffer), f"{function}<VEC>({address})"))
        self._packs[load.serial] = f"{pack}[i].at[k]"
        if self.frame.vector:
            self.frame.use_vector(load.buffer, row_part)
            self.frame.use_rows(column_part)

    def _constants(self) -> list[str]:
        near = self.frame.macros.text(self.kernel.shared.neighbours)
        return [
            "// What a column asks of neighbouring rows alike is made by one lane; shuffles hand it round",
            "// among SHARE of them, the largest power of two that the neighbours' vectors divide into.",
            f"constexpr int SHARE = ({near} / VEC | 32) & -({near} / VEC | 32);",
            f"constexpr int AHEAD = {self.kernel.ahead}, OWN = SHARE < AHEAD ? AHEAD / SHARE : 1;",
        ]

    def _turns(self, made: list[str]) -> list[str]:
        columns, apart = self.frame.macros.text(self.kernel.space.columns), self.kernel.apart
        at = f"const int col = begin + (from + i) * {apart};"
        loads = [f"{one.pack}[i] = {one.call};" for one in self._fetches]
        each = "for (int i = 0; i < AHEAD; ++i)"
        asks = any(re.search(r"\bcol\b", line) for line in self._scope.lines)
        used = [*([at] if asks else []), *self._told, *for_each(self._scope.lines)]
        inner = [
            *(f"Pack<{one.ctype}, VEC> {one.pack}[AHEAD];" for one in self._fetches),
            "#pragma unroll",
            *block(each, block("if (i < there)", [at, *loads])),
            "#pragma unroll",
            *block(each, block("if (i < there)", used)),
        ]
        take = block("const auto take = [&](int from, int there)", inner)
        turn = [
            *made,
            "// AHEAD vectors of a lane are on their way before the first is used.",
            *take[:-1],
            f"{take[-1]};",
            f"const int left = ({columns} - begin + {apart} - 1) / {apart};",
            "const int here = left < SHARE * OWN ? left : SHARE * OWN;",
            "int done = 0;",
            *block("for (; done + AHEAD <= here; done += AHEAD)", ["take(done, AHEAD);"]),
            *block("if (done < here)", ["take(done, here - done);"]),
        ]
        step = f"begin += {apart} * SHARE * OWN"
        return block(f"for (int begin = {self.kernel.first}; begin < {columns}; {step})", turn)


def _stem(part: Expr) -> str:
    return "weight" if isinstance(part, (Load, Index)) else stem_of(part)
