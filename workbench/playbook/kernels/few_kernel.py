"""Few rows against many: a warp reads some of the many once, for all of the few, which wait on the chip.

Owns the text of such a kernel; few_tiling.py has its numbers. Its lanes go along the columns, a vector each;
what they have added up for every pair of rows is joined at the end. Where rows of the many are fewer than the
card has room for, the blocks of a cluster share the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.divisions import with_quotients
from workbench.playbook.analysis.few_rows import FewRows
from workbench.playbook.analysis.pairs import Operand, pairs_of
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Load, Reduction, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.few_tiling import LANES, FewTiling
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for
from workbench.playbook.kernels.pair_frame import PairNames, short_stem
from workbench.playbook.kernels.pair_values import kept_vectors, values_of_rows, vectors_of
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.scope import stem_of

_WORDS = (
    *("lane", "warp", "few", "many", "first_few", "first_many", "groups", "turns", "share", "plane"),
    *("at", "begin", "end", "first", "there", "slot", "column", "number", "cluster", "part", "other", "ask"),
    *("SPAN", "i", "j", "k", "q", "r", "f", "d", "b"),
)
"""What the kernel calls its own."""


def few_kernel(site: Site, kernel: Kernel, name: str, few: FewRows, tiling: FewTiling) -> KernelText:
    """Write the kernel of results that are pairs of one of few rows and one of many."""
    site.macros.name(kernel.stores[0].columns, "COLS")
    if not site.schedule.fast_math:
        kernel = with_quotients(site.program.pool, kernel)
    pairs = pairs_of(site.program.pool, kernel)
    assert pairs is not None
    frame = frame_for(site, kernel, vector=True)
    frame.helpers.update(["load", "join_lanes"])
    names = PairNames(frame, RowSpace(site.program.pool, kernel), pairs)
    text = _Few(names, replace(few, pairs=pairs), tiling, kernel)
    return replace(frame.finish(name, text.lines(), text.grid()), cluster=tiling.split)


@dataclass
class _Few:
    """The kernel being written."""

    one: PairNames
    few: FewRows
    tiling: FewTiling
    kernel: Kernel
    coming: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    """By serial of a load of the many: the array of vectors on their way, that of those that came, and the
    type of an element."""

    def __post_init__(self) -> None:
        for word in _WORDS:
            self.one.frame.names.new(word)
        self.one.at.update({self.few.few: "few", self.few.many: "many"})
        self.sums = self._accumulators()

    @property
    def columns(self) -> str:
        return self.one.size(self.few.pairs.columns)

    def _size(self, axis: int) -> str:
        return self.one.size(self.few.pairs.axes[axis])

    def grid(self) -> str:
        """Blocks: groups of the many, times those that share columns, turns at the few, everything else."""
        site, pairs = self.one.frame.site, self.few.pairs
        parts = [f"cdiv({site.size(pairs.axes[self.few.many])}, {self.tiling.many})"]
        parts += [str(self.tiling.split)] if self.tiling.split > 1 else []
        parts.append(f"cdiv({site.size(pairs.axes[self.few.few])}, {self.few.count})")
        parts += [] if pairs.outer.is_one else [site.factor(pairs.outer)]
        return " * ".join(parts)

    def _accumulators(self) -> list[AccumulatorText]:
        made = {
            expr.key: expr
            for store in self.kernel.stores
            for expr in walk(store.value)
            if isinstance(expr, Reduction)
        }
        found = []
        for accumulator in self.few.pairs.accumulators:
            reduction = made[accumulator.keys[0]]
            name = self.one.frame.names.new(stem_of(reduction))
            found.append(AccumulatorText(accumulator, reduction.dtype, f"{name}[f * MANY + r]"))
            self.one.frame.helpers.add(accumulator.kind)
            helper = {"max": "larger", "min": "smaller"}.get(accumulator.kind)
            self.one.frame.helpers.update([helper] if helper else [])
        return found

    def lines(self) -> list[str]:
        """The body."""
        lines = [*self._head(), *self._waiting(), *self._place(), *self._asked()]
        sides = ((self.few.few, "FEW", ("f", "f")), (self.few.many, "MANY", ("r", "r")))
        lines += [*values_of_rows(self.one, sides), *self._started()]
        piece = [
            "const int there = min(PIECE, end - first);",
            *self._brought(),
            "__syncthreads();",
            *self._taken_in(),
        ]
        if self._has_pieces:
            piece.append("__syncthreads();  // all have used this piece before the next one is brought in")
        lines += [
            f"// A piece of the columns at a time: the {self._of_few} wait in shared memory, what is read of",
            "// the many goes into the sums of all of them.",
            *block("for (int first = begin; first < end; first += PIECE)", piece),
        ]
        return [*lines, *self._joined(), *self._written()]

    @property
    def _has_pieces(self) -> bool:
        """True where a block may go through several."""
        number = self.few.pairs.columns.number
        return number is None or number > self.tiling.piece * self.tiling.split

    @property
    def _of_few(self) -> str:
        return "few rows" if self.few.pairs.held(self.few.few, True) else "columns' own values"

    # ------------------------------------------------------------------------ where a block is

    def _head(self) -> list[str]:
        tiling = self.tiling
        lines = [
            "// A warp has MANY of the many rows and FEW of the few: a vector of the many is read once, and",
            "// goes into FEW sums.",
            f"constexpr int FEW = {self.few.count}, MANY = {tiling.rows}, PIECE = {tiling.piece};",
            f"constexpr int WARPS = THREADS / {LANES}, SUMS = FEW * MANY;",
            f"constexpr int SPAN = {LANES} * VEC, DEEP = {tiling.deep};",
        ]
        if tiling.split > 1:
            lines += [
                f"// {tiling.split} blocks share the columns: a cluster, whose blocks run at the same time.",
                f"constexpr int BLOCKS = {tiling.split};",
                f"constexpr int SHARE = ({self.columns} + BLOCKS * SPAN - 1) / (BLOCKS * SPAN) * SPAN;",
            ]
        return lines

    def _waiting(self) -> list[str]:
        lines = []
        for operand in self.few.waiting:
            name = self.one.names[operand.expr.serial] = self.one.frame.names.new(
                f"{short_stem(operand)}_rows" if operand.axis is not None else f"{short_stem(operand)}_piece"
            )
            rows = "[PIECE]" if operand.axis is None else "[FEW][PIECE]"
            lines.append(f"__shared__ __align__(16) {CTYPES[operand.expr.dtype]} {name}{rows};")
        return lines

    def _place(self) -> list[str]:
        pairs, tiling = self.few.pairs, self.tiling
        many, few = self._size(self.few.many), self._size(self.few.few)
        lines = [
            f"const int lane = threadIdx.x % {LANES};",
            f"const int warp = threadIdx.x / {LANES};",
            f"const int groups = ({many} + MANY * WARPS - 1) / (MANY * WARPS);",
        ]
        here = "blockIdx.x"
        if tiling.split > 1:
            here = "cluster"
            lines += [
                "const int share = blockIdx.x % BLOCKS;",
                "const int cluster = blockIdx.x / BLOCKS;",
                "const int begin = share * SHARE;",
                f"const int end = min(begin + SHARE, {self.columns});",
            ]
        else:
            lines.append(f"const int begin = 0, end = {self.columns};")
        lines += [f"const int first_many = ({here} % groups * WARPS + warp) * MANY;"]
        if pairs.outer.is_one:
            return [*lines, f"const int first_few = {here} / groups * FEW;"]
        lines += [
            f"const int turns = ({few} + FEW - 1) / FEW;",
            f"const int first_few = {here} / groups % turns * FEW;",
        ]
        others = [axis for axis in range(len(pairs.axes)) if axis not in (self.few.few, self.few.many)]
        placed = self.one.placed(others, "(groups * turns)")
        return [*lines, *(line.replace("blockIdx.x", here) for line in placed)]

    def _started(self) -> list[str]:
        lines = [f"{one.ctype} {_array(one)}[SUMS];" for one in self.sums]
        starts = [f"{_array(one)}[number] = {one.start};" for one in self.sums]
        loop = block("for (int number = 0; number < SUMS; ++number)", starts)
        return [*lines, "#pragma unroll", *loop]

    # ------------------------------------------------------------------------ a piece

    def _brought(self) -> list[str]:
        """What waits in shared memory, computed once an element; vectors where it lies in vectors."""
        lines: list[str] = []
        for shared in (False, True):
            for wide in (True, False):
                operands = [
                    one
                    for one in self.few.waiting
                    if (one.axis is None) == shared and bool(one.loads) == wide
                ]
                if operands:
                    lines += self._bring(operands, shared, wide)
        return lines

    def _bring(self, operands: Sequence[Operand], shared: bool, wide: bool) -> list[str]:
        one = self.one
        place = "[slot]" if shared else "[f][slot]"
        if wide:
            packs, body = vectors_of(one, operands)
            body += kept_vectors(one, operands, packs, place)
        else:
            scope = one.scope({})
            scope.prepare(operand.expr for operand in operands)
            stores = [
                f"{one.names[operand.expr.serial]}{place} = {scope.text(operand.expr).code};"
                for operand in operands
            ]
            body = [*scope.lines, *stores]
        if not shared:
            body = [one.row_of(self.few.few, "f"), *body]
            body = ["#pragma unroll", *block("for (int f = 0; f < FEW; ++f)", body)]
        start, ahead = ("threadIdx.x * VEC", "THREADS * VEC") if wide else ("threadIdx.x", "THREADS")
        loop = f"for (int slot = {start}; slot < there; slot += {ahead})"
        return block(loop, ["const int k = first + slot;", *body])

    def _asked(self) -> list[str]:
        """The first vectors of the many are asked for before anything else: the few come meanwhile."""
        few, frame = self.few, self.one.frame
        packs, read = vectors_of(self.one, few.read, "[d][r]")
        for load in dict.fromkeys(load for operand in few.read for load in operand.loads):
            ctype = f"Pack<{frame.element_type(load.buffer)}, VEC>"
            self.coming[load.serial] = packs[load.serial], frame.names.new(f"{load.buffer}_now"), ctype
        reads = [self.one.row_of(few.many, "r"), *read]
        ask = ["#pragma unroll", *block("for (int r = 0; r < MANY; ++r)", reads)]
        lines = [f"{ctype} {name}[DEEP][MANY];" for name, _, ctype in self.coming.values()]
        lines += [
            "// Vectors of the many are on their way DEEP steps ahead of where they are used.",
            *block("const auto ask = [&](int d, int k)", block("if (k < end)", ask)),
        ]
        lines[-1] += ";"
        return [
            *lines,
            "int column = begin + lane * VEC;",
            "#pragma unroll",
            *block("for (int d = 0; d < DEEP; ++d)", ["ask(d, column + d * SPAN);"]),
        ]

    def _taken_in(self) -> list[str]:
        """The steps of a piece: what came is used while what is next is on its way."""
        packs, lines, takes = dict[int, str](), list[str](), list[str]()
        for serial, (name, now, ctype) in self.coming.items():
            packs[serial] = now
            lines.append(f"{ctype} {now}[MANY];")
            takes.append(f"{now}[r] = {name}[d][r];")
        step = [
            *lines,
            "#pragma unroll",
            *block("for (int r = 0; r < MANY; ++r)", takes),
            "ask(d, column + (d + DEEP) * SPAN);",
            "const int slot = column + d * SPAN - first;",
            *block("if (slot < there)", self._used(packs)),
        ]
        inside = ["#pragma unroll", *block("for (int d = 0; d < DEEP; ++d)", step)]
        return block("for (; column < first + there; column += DEEP * SPAN)", inside)

    def _used(self, packs: dict[int, str]) -> list[str]:
        """A vector of each row of the many, as what is computed of it, and with it every row of the few."""
        one, few = self.one, self.few
        lines: list[str] = []
        bound: dict[int, Text] = {}
        found = {
            load.serial: one.frame.value(load, f"{packs[load.serial]}[r].at[q]")
            for operand in few.read
            for load in operand.loads
        }
        made = [operand for operand in few.read if not isinstance(operand.expr, Load)]
        for operand in few.read:
            if operand not in made:
                bound[operand.expr.serial] = found[operand.expr.serial]
        if made:
            scope = one.scope(found)
            scope.prepare(operand.expr for operand in made)
            values = []
            for operand in made:
                name = one.frame.names.new(f"{short_stem(operand)}_made")
                lines.append(f"{CTYPES[operand.expr.dtype]} {name}[MANY][VEC];")
                values.append(f"{name}[r][q] = {scope.text(operand.expr).code};")
                bound[operand.expr.serial] = Text(f"{name}[r][q]")
            body = [one.row_of(few.many, "r"), *scope.lines, *values]
            each = ["#pragma unroll", *block("for (int q = 0; q < VEC; ++q)", body)]
            lines += ["#pragma unroll", *block("for (int r = 0; r < MANY; ++r)", each)]
        for axis, at in ((few.few, "f"), (few.many, "r")):
            for operand in few.pairs.held(axis, varies=False):
                bound[operand.expr.serial] = Text(f"{one.names[operand.expr.serial]}[{at}]")
        for operand in few.pairs.held(None, varies=False):
            bound[operand.expr.serial] = Text(one.names[operand.expr.serial])
        rows: list[str] = []
        for operand in few.waiting:
            name = one.names[operand.expr.serial]
            pack = one.frame.names.new(f"{short_stem(operand)}_here")
            ctype = f"const Pack<{CTYPES[operand.expr.dtype]}, VEC> {pack}"
            if operand.axis is None:
                lines.append(f"{ctype} = load<VEC>(&{name}[slot]);")
            else:
                rows.append(f"{ctype} = load<VEC>(&{name}[f][slot]);")
            bound[operand.expr.serial] = Text(f"{pack}.at[q]")
        scope = one.scope(bound)
        scope.prepare(text.accumulator.operand for text in self.sums)
        entered = [text.enter(scope.text(text.accumulator.operand), "k") for text in self.sums]
        each = ["#pragma unroll", *block("for (int r = 0; r < MANY; ++r)", [*scope.lines, *entered])]
        rows += ["#pragma unroll", *block("for (int q = 0; q < VEC; ++q)", each)]
        return [*lines, "#pragma unroll", *block("for (int f = 0; f < FEW; ++f)", rows)]

    # ------------------------------------------------------------------------ results

    def _joined(self) -> list[str]:
        """What the lanes of a warp have found, one result after the other."""
        lines = [
            "// Each lane gives away half of what it has and takes the same half of another's: in the end",
            "// a result is with one lane, or with a few neighbours.",
            "constexpr int EACH = SUMS < 32 ? 1 : SUMS / 32, ALIKE = SUMS < 32 ? 32 / SUMS : 1;",
        ]
        for one in self.sums:
            array, parts = _array(one), self._parts(one)
            lines += [
                f"__shared__ {one.ctype} {parts}[WARPS][SUMS];",
                f"join_lanes<{one.op}, SUMS>({array});",
            ]
        stores = [
            f"{self._parts(one)}[warp][lane / ALIKE * EACH + j] = {_array(one)}[j];" for one in self.sums
        ]
        keep = ["#pragma unroll", *block("for (int j = 0; j < EACH; ++j)", stores)]
        return [*lines, *block("if (lane % ALIKE == 0)", keep)]

    def _parts(self, one: AccumulatorText) -> str:
        return f"{_array(one)}_parts"

    def _written(self) -> list[str]:
        """What is made of the reductions, a thread a result."""
        one, few, tiling = self.one, self.few, self.tiling
        results: dict[int, Text] = {}
        lines, names = list[str](), list[str]()
        for text in self.sums:
            name = one.frame.names.new(f"whole_{_array(text)}")
            whole = replace(text, name=name)
            results.update(zip(text.accumulator.keys, whole.results(self.columns), strict=True))
            parts = self._parts(text)
            if tiling.split == 1:
                names.append(f"const {text.ctype} {name} = {parts}[part][number];")
                continue
            there = "cooperative_groups::this_cluster().map_shared_rank(PARTS, b)"
            names += [
                f"{text.ctype} {name} = {text.start};",
                "#pragma unroll",
                *block(
                    "for (int b = 0; b < BLOCKS; ++b)",
                    [
                        f"const {text.ctype}* const other = {there.replace('PARTS', f'&{parts}[0][0]')};",
                        whole.enter_partial(["other[at]"]),
                    ],
                ),
            ]
        place = [
            "const int part = at / SUMS;",
            "const int number = at % SUMS;",
            "const int few = first_few + number / MANY;",
            "const int many = (CLUSTER % groups * WARPS + part) * MANY + number % MANY;".replace(
                "CLUSTER", "blockIdx.x" if tiling.split == 1 else "cluster"
            ),
        ]
        inside = block(
            f"if (few < {self._size(few.few)} && many < {self._size(few.many)})",
            [*names, *one.stored(self.kernel, results)],
        )
        if tiling.split == 1:
            loop = "for (int at = threadIdx.x; at < WARPS * SUMS; at += THREADS)"
            return [*lines, "__syncthreads();", *block(loop, [*place, *inside])]
        one.frame.helpers.add("cluster_meet")
        loop = "for (int at = share * THREADS + threadIdx.x; at < WARPS * SUMS; at += BLOCKS * THREADS)"
        return [
            *lines,
            "// The blocks meet: each has left what it found, and finishes some of the results of all.",
            "__syncthreads();",
            "cluster_meet();",
            *block(loop, [*place, *inside]),
            "__cluster_barrier_arrive_relaxed();  // a block may end, and its shared memory with it, only",
            "__cluster_barrier_wait();            // when the others have read it",
        ]


def _array(one: AccumulatorText) -> str:
    """The array of a thread's partial results."""
    return one.name.split("[")[0]
