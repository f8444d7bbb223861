"""Reductions over pairs of rows: a block has a tile of the results, and brings the rows in that it needs.

Owns the text of such a kernel; pairs.py says what a result is made of and how tiles lie.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.accumulators import AccumulatorText
from workbench.playbook.cuda_text import CTYPES, SUM, Text
from workbench.playbook.divisions import with_quotients
from workbench.playbook.expr import Expr, Index, Load, Reduction, walk
from workbench.playbook.indexing import index_text
from workbench.playbook.kernel_text import Frame, KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.pairs import Operand, Pairs, Tiling, padding_of, pairs_of
from workbench.playbook.program import Kernel
from workbench.playbook.row_passes import RowSpace
from workbench.playbook.scope import Scope, stem_of
from workbench.playbook.sizes import ONE, Size
from workbench.playbook.views import View, split

_WORDS = (
    "line",
    "lane",
    "row",
    "col",
    "k",
    "q",
    "r",
    "c",
    "n",
    "at",
    "first",
    "there",
    "tiles",
    "place",
    "slot",
)
_MORE_WORDS = ("j", "first_row", "first_col", "below", "plane", "i")
_RUN = 8
"""Neighbouring rows that a warp reads where those lie side by side: a sector, of each of four columns."""


@dataclass
class _Kernel:
    """The kernel being written, and what its values are called."""

    frame: Frame
    space: RowSpace
    pairs: Pairs
    tiling: Tiling
    names: dict[int, str] = field(default_factory=dict)
    """Of operands: their tile, or where they wait in registers; by serial."""
    at: dict[int, str] = field(default_factory=dict)
    """Coordinate of every axis."""

    def size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    @property
    def down(self) -> str:
        return self.size(self.pairs.axes[self.pairs.down])

    @property
    def across(self) -> str:
        return self.size(self.pairs.axes[self.pairs.across])

    def index(self, rows: View, columns: View | None = None) -> Text:
        """The element that views over the rows, and over the columns, find at the coordinates."""
        steps = self.pairs.steps(rows)
        if steps is None:
            return index_text(rows, "i", self.frame.macros, wide=True)
        found = [(self.at[axis], step) for axis, step in enumerate(steps) if not step.is_zero]
        ahead = [self._term(name, step) for name, step in found if not step.is_negative]
        back = [self._term(name, -step) for name, step in found if step.is_negative]
        if columns is not None:
            own = index_text(columns, "k", self.frame.macros)
            ahead += [own.code] if own.code != "0" else []
        if not rows.offset.is_zero:
            offset = rows.offset
            (back if offset.is_negative else ahead).append(
                self.size(-offset if offset.is_negative else offset)
            )
        return Text(" - ".join([" + ".join(ahead) or "0", *back]), SUM)

    def _term(self, name: str, step: Size) -> str:
        return name if step.is_one else f"size_t({name}) * {self.size(step)}"

    def scope(self, bound: Mapping[int, Text], results: Mapping[int, Text] | None = None) -> Scope:
        """Statements at the coordinates; over the columns too, unless ``results`` has the reductions."""

        def leaf(expr: Expr) -> Text:
            if isinstance(expr, Reduction):
                assert results is not None
                return results[expr.key]
            assert isinstance(expr, (Load, Index))
            rows, columns = expr.view, None
            if results is None:
                rows, columns = split(expr.view, self.space.rows, self.space.columns)
            base = self.index(rows, columns)
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            code = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, code))

        fast = self.frame.site.schedule.fast_math
        scope = Scope(leaf, self.frame.names, self.frame.macros, fast, bound)
        return scope


def pair_kernel(site: Site, kernel: Kernel, name: str, tiling: Tiling) -> KernelText:
    """Write the kernel of results that are pairs of rows."""
    site.macros.name(kernel.stores[0].columns, "COLS")
    text = _text(site, kernel, name, tiling)
    possible = text.width is None or text.width.is_possible
    return text if possible else _text(site, kernel, name, replace(tiling, width=1))


def _text(site: Site, kernel: Kernel, name: str, tiling: Tiling) -> KernelText:
    if not site.schedule.fast_math:
        kernel = with_quotients(site.program.pool, kernel)
    pairs = pairs_of(site.program.pool, kernel)
    assert pairs is not None
    frame = frame_for(site, kernel, vector=tiling.width > 1)
    for word in (*_WORDS, *_MORE_WORDS):
        frame.names.new(word)
    frame.helpers.add("load")
    one = _Kernel(frame, RowSpace(site.program.pool, kernel), pairs, tiling)
    sums = _accumulators(one, kernel)
    lines = [*_head(one), *_tiles(one), *_place(one), *_kept(one)]
    lines += _started(sums)
    lines += [
        "// A piece of the columns at a time: each row comes from memory once a tile, not once a result.",
        *block(f"for (int first = 0; first < {one.size(pairs.columns)}; first += PIECE)", _piece(one, sums)),
    ]
    lines += _written(one, kernel, sums)
    return frame.finish(name, lines, _grid(site, one))


def _grid(site: Site, one: _Kernel) -> str:
    axes, tile = one.pairs.axes, one.tiling.tile
    parts = [f"cdiv({site.size(axes[at])}, {tile})" for at in (one.pairs.down, one.pairs.across)]
    if not one.pairs.outer.is_one:
        parts.append(site.factor(one.pairs.outer))
    return " * ".join(parts)


def _accumulators(one: _Kernel, kernel: Kernel) -> list[AccumulatorText]:
    """The results of a thread, by row and column of its own."""
    made = {
        expr.key: expr for store in kernel.stores for expr in walk(store.value) if isinstance(expr, Reduction)
    }
    found = []
    for accumulator in one.pairs.accumulators:
        reduction = made[accumulator.keys[0]]
        name = one.frame.names.new(stem_of(reduction))
        found.append(AccumulatorText(accumulator, reduction.dtype, f"{name}[r][c]"))
        helper = {"max": "larger", "min": "smaller"}.get(accumulator.kind)
        one.frame.helpers.update([helper] if helper else [])
    return found


# ------------------------------------------------------------------------------------ where a block is


def _head(one: _Kernel) -> list[str]:
    tiling = one.tiling
    return [
        "// A block has TILE x TILE results, a thread BELOW x RIGHT of them: what it reads of a row from",
        "// shared memory goes into all its results of that row.",
        f"constexpr int TILE = {tiling.tile}, BELOW = {tiling.below}, RIGHT = {tiling.right};",
        "constexpr int DOWN = TILE / BELOW, ACROSS = TILE / RIGHT;",
        f"constexpr int PIECE = {tiling.piece};",
    ]


def _tiles(one: _Kernel) -> list[str]:
    """Where rows wait; what all of them share has one."""
    pairs = one.pairs
    lines = ["// Rows lie 16 bytes further apart than they are long: vectors of eight rows are on all banks."]
    for operand in pairs.operands:
        if not operand.varies:
            continue
        kind = "piece" if operand.axis is None else "rows" if operand.axis == pairs.down else "cols"
        name = one.names[operand.expr.serial] = one.frame.names.new(f"{_stem(operand)}_{kind}")
        size = DTYPE_BYTES[operand.expr.dtype]
        aligned = f"__align__({pairs.vector * size}) {CTYPES[operand.expr.dtype]}"
        rows = "[PIECE]" if operand.axis is None else f"[TILE][PIECE + {padding_of(size)}]"
        lines.append(f"__shared__ {aligned} {name}{rows};")
    return lines


def _place(one: _Kernel) -> list[str]:
    """The block's first row and column, and the thread's place in the tile."""
    pairs = one.pairs
    lines = ["const int lane = threadIdx.x % ACROSS;", "const int line = threadIdx.x / ACROSS;"]
    lines.append(f"const int tiles = ({one.across} + TILE - 1) / TILE;")
    lines.append("const int first_col = blockIdx.x % tiles * TILE;")
    one.at.update({pairs.down: "row", pairs.across: "col"})
    if pairs.outer.is_one:
        return [*lines, "const int first_row = blockIdx.x / tiles * TILE;"]
    lines.append(f"const int below = ({one.down} + TILE - 1) / TILE;")
    lines.append("const int first_row = blockIdx.x / tiles % below * TILE;")
    others = [axis for axis in range(len(pairs.axes)) if axis not in (pairs.down, pairs.across)]
    inner = ONE
    for axis in reversed(others):
        name = one.at[axis] = "plane" if len(others) == 1 else one.frame.names.new(f"plane_{axis}")
        code = "blockIdx.x / (tiles * below)"
        code += "" if inner.is_one else f" / {one.size(inner)}"
        code += "" if axis == others[0] else f" % {one.size(pairs.axes[axis])}"
        lines.append(f"const int {name} = {code};")
        inner = inner * pairs.axes[axis]
    return lines


def _row_of(one: _Kernel, axis: int, code: str) -> str:
    """A row of an operand: beyond the last one it is that once more, whose results nobody writes."""
    name, size = one.at[axis], one.down if axis == one.pairs.down else one.across
    return f"const int {name} = min(first_{name} + {code}, {size} - 1);"


def _kept(one: _Kernel) -> list[str]:
    """What is one value a row: it waits in registers."""
    lines = _named(one, one.pairs.held(None, varies=False))
    for axis, count, place in _sides(one):
        operands = one.pairs.held(axis, varies=False)
        if not operands:
            continue
        scope, body = one.scope({}), []
        for operand in operands:
            name = one.names[operand.expr.serial] = one.frame.names.new(f"{_stem(operand)}_here")
            lines.append(f"{CTYPES[operand.expr.dtype]} {name}[{count}];")
            body.append(f"{name}[{place[0]}] = {scope.text(operand.expr).code};")
        loop = f"for (int {place[0]} = 0; {place[0]} < {count}; ++{place[0]})"
        lines += [
            "#pragma unroll",
            *block(loop, [_row_of(one, axis, place[1]), *scope.lines, *body]),
        ]
    return lines


def _named(one: _Kernel, operands: Sequence[Operand]) -> list[str]:
    """What all results of a block share."""
    scope = one.scope({})
    for operand in operands:
        name = one.names[operand.expr.serial] = one.frame.names.new(stem_of(operand.expr))
        scope.declare(operand.expr, name, scope.text(operand.expr).code)
    return scope.lines


def _sides(one: _Kernel) -> tuple[tuple[int, str, tuple[str, str]], ...]:
    """The paired axes: how many rows of each a thread has, the loop's variable, and where its rows are."""
    return (
        (one.pairs.down, "BELOW", ("r", "line + r * DOWN")),
        (one.pairs.across, "RIGHT", ("c", "lane + c * ACROSS")),
    )


# ------------------------------------------------------------------------------------ a piece


def _started(sums: Sequence[AccumulatorText]) -> list[str]:
    lines = [f"{one.ctype} {one.name.replace('[r][c]', '[BELOW][RIGHT]')};" for one in sums]
    return [*lines, *_each_result([f"{one.name} = {one.start};" for one in sums])]


def _each_result(body: list[str]) -> list[str]:
    inner = ["#pragma unroll", *block("for (int c = 0; c < RIGHT; ++c)", body)]
    return ["#pragma unroll", *block("for (int r = 0; r < BELOW; ++r)", inner)]


def _piece(one: _Kernel, sums: Sequence[AccumulatorText]) -> list[str]:
    """Bring the rows in, wait, take them in, and wait before the next are brought in."""
    columns = one.size(one.pairs.columns)
    lines: list[str] = []
    for axis, _, _ in _sides(one):
        held = one.pairs.held(axis, varies=True)
        wide = [operand for operand in held if operand.loads and one.tiling.width > 1]
        lines += _in_vectors(one, axis, wide)
        for along in (True, False):
            apart = [operand for operand in held if operand not in wide and operand.along == along]
            lines += _brought_in(one, axis, apart, along)
    lines += _shared_by_all(one)
    step = [f"const int there = min(PIECE, {columns} - first);"]
    step += block(f"for (int k = 0; k < there; k += {one.pairs.vector})", _taken_in(one, sums))
    return [*lines, "__syncthreads();", *step, "__syncthreads();"]


def _brought_in(one: _Kernel, axis: int, operands: Sequence[Operand], along: bool) -> list[str]:
    """Rows of operands, computed once an element; threads side by side read what lies side by side."""
    if not operands:
        return []
    columns = one.size(one.pairs.columns)
    row, k = ("at / PIECE", "at % PIECE")
    if not along:
        row, k = f"at / ({_RUN} * PIECE) * {_RUN} + at % {_RUN}", f"at / {_RUN} % PIECE"
    scope = one.scope({})
    scope.prepare(operand.expr for operand in operands)
    stores = [
        f"{one.names[operand.expr.serial]}[place][slot] = {scope.text(operand.expr).code};"
        for operand in operands
    ]
    body = [
        "const int at = n * THREADS + threadIdx.x;",
        f"const int place = {row};",
        f"const int slot = {k};",
        f"const int k = min(first + slot, {columns} - 1);",
        _row_of(one, axis, "place"),
        *scope.lines,
        *stores,
    ]
    return [_unrolled(one), *block("for (int n = 0; n < TILE * PIECE / THREADS; ++n)", body)]


def _unrolled(one: _Kernel) -> str:
    return "#pragma unroll" + ("" if one.tiling.is_roomy else f" {one.tiling.ahead}")


def _in_vectors(one: _Kernel, axis: int, operands: Sequence[Operand]) -> list[str]:
    """The same, VEC columns at a time."""
    if not operands:
        return []
    frame, columns = one.frame, one.size(one.pairs.columns)
    frame.helpers.add("store")
    packs: dict[int, str] = {}
    lines = [
        "const int at = (n * THREADS + threadIdx.x) * VEC;",
        "const int place = at / PIECE;",
        "const int slot = at % PIECE;",
        f"const int k = min(first + slot, {columns} - VEC);",
        _row_of(one, axis, "place"),
    ]
    for load in dict.fromkeys(load for operand in operands for load in operand.loads):
        rows, cols = split(load.view, one.space.rows, one.space.columns)
        packs[load.serial] = frame.names.new(f"{load.buffer}_pack")
        frame.vectors.add(load.buffer)
        frame.divisors.add(one.space.columns)
        frame.use_rows(load.buffer, rows)
        element = frame.element(load.buffer, one.index(rows, cols))
        ctype = frame.element_type(load.buffer)
        lines.append(f"const Pack<{ctype}, VEC> {packs[load.serial]} = load<VEC>(&{element});")
    lines += _entered(one, operands, packs)
    return [_unrolled(one), *block("for (int n = 0; n < TILE * PIECE / VEC / THREADS; ++n)", lines)]


def _entered(one: _Kernel, operands: Sequence[Operand], packs: Mapping[int, str]) -> list[str]:
    """What is made of vectors of columns, stored where it waits."""
    frame, lines, each, stores = one.frame, list[str](), list[str](), list[str]()
    bound = {
        load.serial: frame.value(load, f"{packs[load.serial]}.at[j]")
        for operand in operands
        for load in operand.loads
    }
    scope = one.scope(bound)
    made = [operand for operand in operands if not _is_plain(one, operand.expr)]
    scope.prepare(operand.expr for operand in made)
    for operand in operands:
        name = packs.get(operand.expr.serial, "")
        if operand in made:
            name = frame.names.new(f"{_stem(operand)}_pack")
            lines.append(f"Pack<{CTYPES[operand.expr.dtype]}, VEC> {name};")
            each.append(f"{name}.at[j] = {scope.text(operand.expr).code};")
        stores.append(f"store(&{one.names[operand.expr.serial]}[place][slot], {name});")
    if each:
        body = [*scope.lines, *each]
        lines += ["#pragma unroll", *block("for (int j = 0; j < VEC; ++j)", body)]
    return [*lines, *stores]


def _is_plain(one: _Kernel, expr: Expr) -> bool:
    """True for elements that are kept as they are."""
    return isinstance(expr, Load) and one.frame.site.buffer(expr.buffer).dtype == expr.dtype


def _shared_by_all(one: _Kernel) -> list[str]:
    """What differs from column to column only."""
    operands = one.pairs.held(None, varies=True)
    if not operands:
        return []
    scope = one.scope({})
    scope.prepare(operand.expr for operand in operands)
    stores = [
        f"{one.names[operand.expr.serial]}[threadIdx.x] = {scope.text(operand.expr).code};"
        for operand in operands
    ]
    at = f"const int k = min(first + int(threadIdx.x), {one.size(one.pairs.columns)} - 1);"
    return block("if (threadIdx.x < PIECE)", [at, *scope.lines, *stores])


def _taken_in(one: _Kernel, sums: Sequence[AccumulatorText]) -> list[str]:
    """A vector of columns: of the rows that a thread has beside it first, then row by row."""
    vector = one.pairs.vector
    bound: dict[int, Text] = {}
    for operand in one.pairs.operands:
        bound[operand.expr.serial] = _waiting(one, operand)
    packs, rows = [], []
    for operand in one.pairs.held(one.pairs.across, varies=True):
        name = one.frame.names.new(f"{_stem(operand)}_right")
        packs += [(operand, name)]
        bound[operand.expr.serial] = Text(f"{name}[c].at[q]")
    for operand in one.pairs.held(one.pairs.down, varies=True):
        name = one.frame.names.new(f"{_stem(operand)}_left")
        tile = one.names[operand.expr.serial]
        rows.append(f"const {_pack(operand, vector)} {name} = load<{vector}>(&{tile}[line + r * DOWN][k]);")
        bound[operand.expr.serial] = Text(f"{name}.at[q]")
    lines = [f"{_pack(operand, vector)} {name}[RIGHT];" for operand, name in packs]
    reads = [
        f"{name}[c] = load<{vector}>(&{one.names[operand.expr.serial]}[lane + c * ACROSS][k]);"
        for operand, name in packs
    ]
    scope = one.scope(bound)
    scope.prepare(text.accumulator.operand for text in sums)
    entered = [text.enter(scope.text(text.accumulator.operand), "k") for text in sums]
    each = ["#pragma unroll", *block("for (int c = 0; c < RIGHT; ++c)", [*scope.lines, *entered])]
    columns = one.size(one.pairs.columns)
    inside = block(f"if ({columns} % {vector} == 0 || k + q < there)", each)
    rows += ["#pragma unroll", *block(f"for (int q = 0; q < {vector}; ++q)", inside)]
    lines += ["#pragma unroll", *block("for (int c = 0; c < RIGHT; ++c)", reads)] if reads else []
    return [*lines, "#pragma unroll", *block("for (int r = 0; r < BELOW; ++r)", rows)]


def _waiting(one: _Kernel, operand: Operand) -> Text:
    """Where an operand is that is no row of its own."""
    name = one.names[operand.expr.serial]
    if operand.axis is None:
        return Text(f"{name}[k + q]" if operand.varies else name)
    return Text(f"{name}[{'r' if operand.axis == one.pairs.down else 'c'}]")


def _stem(operand: Operand) -> str:
    return stem_of(operand.expr).removesuffix("_value")


def _pack(operand: Operand, vector: int) -> str:
    return f"Pack<{CTYPES[operand.expr.dtype]}, {vector}>"


# ------------------------------------------------------------------------------------ results


def _written(one: _Kernel, kernel: Kernel, sums: Sequence[AccumulatorText]) -> list[str]:
    """What is made of the reductions, from registers."""
    columns = one.size(one.pairs.columns)
    results: dict[int, Text] = {}
    for text in sums:
        results.update(zip(text.accumulator.keys, text.results(columns), strict=True))
    scope = one.scope({}, results)
    scope.prepare(store.value for store in kernel.stores)
    stores = []
    for store in kernel.stores:
        value = one.frame.stored(store.buffer, scope.text(store.value).code)
        stores.append(f"{one.frame.element(store.buffer, one.index(store.view))} = {value};")
    lines = [*scope.lines, *stores]
    if any(re.search(r"\bi\b", line) for line in lines):
        lines = [f"const size_t i = {_linear(one)};", *lines]
    place = [
        "const int row = first_row + line + r * DOWN;",
        "const int col = first_col + lane + c * ACROSS;",
    ]
    return _each_result([*place, *block(f"if (row < {one.down} && col < {one.across})", lines)])


def _linear(one: _Kernel) -> str:
    """The index of a result among all rows of the kernel."""
    parts: list[str] = []
    inner = ONE
    for axis in reversed(range(len(one.pairs.axes))):
        name = one.at[axis]
        parts.insert(0, name if inner.is_one else f"size_t({name}) * {one.size(inner)}")
        inner = inner * one.pairs.axes[axis]
    return " + ".join(parts)
