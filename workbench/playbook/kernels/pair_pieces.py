"""A piece of the columns of a tile of pairs: rows are brought into shared memory, and taken in from there.

Owns the text of that loop's body; pair_kernel.py has what stands around it.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.pairs import Operand
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.pair_frame import PairFrame, short_stem
from workbench.playbook.kernels.pair_values import kept_vectors, vectors_of
from workbench.playbook.text.cuda_text import CTYPES, Text

_RUN = 8
"""Neighbouring rows that a warp reads where those lie side by side: a sector, of each of four columns."""


def piece_text(one: PairFrame, sums: Sequence[AccumulatorText]) -> list[str]:
    """Bring the rows in, wait, take them in, and wait before the next are brought in."""
    columns = one.size(one.pairs.columns)
    lines: list[str] = []
    for axis, _, _ in one.sides:
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


def _brought_in(one: PairFrame, axis: int, operands: Sequence[Operand], along: bool) -> list[str]:
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
        one.row_of(axis, "place"),
        *scope.lines,
        *stores,
    ]
    return [_unrolled(one), *block("for (int n = 0; n < TILE * PIECE / THREADS; ++n)", body)]


def _unrolled(one: PairFrame) -> str:
    return "#pragma unroll" + ("" if one.tiling.is_roomy else f" {one.tiling.ahead}")


def _in_vectors(one: PairFrame, axis: int, operands: Sequence[Operand]) -> list[str]:
    """The same, VEC columns at a time."""
    if not operands:
        return []
    columns = one.size(one.pairs.columns)
    lines = [
        "const int at = (n * THREADS + threadIdx.x) * VEC;",
        "const int place = at / PIECE;",
        "const int slot = at % PIECE;",
        f"const int k = min(first + slot, {columns} - VEC);",
        one.row_of(axis, "place"),
    ]
    packs, reads = vectors_of(one, operands)
    lines += [*reads, *kept_vectors(one, operands, packs, "[place][slot]")]
    return [_unrolled(one), *block("for (int n = 0; n < TILE * PIECE / VEC / THREADS; ++n)", lines)]


def _shared_by_all(one: PairFrame) -> list[str]:
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


def _taken_in(one: PairFrame, sums: Sequence[AccumulatorText]) -> list[str]:
    """A vector of columns: of the rows that a thread has beside it first, then row by row."""
    vector = one.pairs.vector
    bound: dict[int, Text] = {}
    for operand in one.pairs.operands:
        bound[operand.expr.serial] = _waiting(one, operand)
    packs, rows = [], []
    for operand in one.pairs.held(one.pairs.across, varies=True):
        name = one.frame.names.new(f"{short_stem(operand)}_right")
        packs += [(operand, name)]
        bound[operand.expr.serial] = Text(f"{name}[c].at[q]")
    for operand in one.pairs.held(one.pairs.down, varies=True):
        name = one.frame.names.new(f"{short_stem(operand)}_left")
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


def _waiting(one: PairFrame, operand: Operand) -> Text:
    """Where an operand is that is no row of its own."""
    name = one.names[operand.expr.serial]
    if operand.axis is None:
        return Text(f"{name}[k + q]" if operand.varies else name)
    return Text(f"{name}[{'r' if operand.axis == one.pairs.down else 'c'}]")


def _pack(operand: Operand, vector: int) -> str:
    return f"Pack<{CTYPES[operand.expr.dtype]}, {vector}>"
