"""Reductions over pairs of rows: a block has a tile of the results, and brings the rows in that it needs.

Owns the text of such a kernel; pairs.py says what a result is made of and how tiles lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.divisions import with_quotients
from workbench.playbook.analysis.pairs import pairs_of
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Reduction, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for
from workbench.playbook.kernels.pair_frame import PairFrame, short_stem
from workbench.playbook.kernels.pair_pieces import piece_text
from workbench.playbook.kernels.pair_tiling import Tiling, padding_of
from workbench.playbook.kernels.pair_values import values_of_rows
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.scope import stem_of


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
    frame.helpers.add("load")
    one = PairFrame(frame, RowSpace(site.program.pool, kernel), pairs, tiling)
    sums = _accumulators(one, kernel)
    lines = [*_head(one), *_tiles(one), *_place(one), *values_of_rows(one, one.sides)]
    lines += _started(sums)
    columns = one.size(pairs.columns)
    lines += [
        "// A piece of the columns at a time: each row comes from memory once a tile, not once a result.",
        *block(f"for (int first = 0; first < {columns}; first += PIECE)", piece_text(one, sums)),
    ]
    lines += _written(one, kernel, sums)
    return frame.finish(name, lines, _grid(site, one))


def _grid(site: Site, one: PairFrame) -> str:
    axes, tile = one.pairs.axes, one.tiling.tile
    parts = [f"cdiv({site.size(axes[at])}, {tile})" for at in (one.pairs.down, one.pairs.across)]
    if not one.pairs.outer.is_one:
        parts.append(site.factor(one.pairs.outer))
    return " * ".join(parts)


def _accumulators(one: PairFrame, kernel: Kernel) -> list[AccumulatorText]:
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


def _head(one: PairFrame) -> list[str]:
    tiling = one.tiling
    return [
        "// A block has TILE x TILE results, a thread BELOW x RIGHT of them: what it reads of a row from",
        "// shared memory goes into all its results of that row.",
        f"constexpr int TILE = {tiling.tile}, BELOW = {tiling.below}, RIGHT = {tiling.right};",
        "constexpr int DOWN = TILE / BELOW, ACROSS = TILE / RIGHT;",
        f"constexpr int PIECE = {tiling.piece};",
    ]


def _tiles(one: PairFrame) -> list[str]:
    """Where rows wait; what all of them share has one."""
    pairs = one.pairs
    lines = ["// Rows lie 16 bytes further apart than they are long: vectors of eight rows are on all banks."]
    for operand in pairs.operands:
        if not operand.varies:
            continue
        kind = "piece" if operand.axis is None else "rows" if operand.axis == pairs.down else "cols"
        name = one.names[operand.expr.serial] = one.frame.names.new(f"{short_stem(operand)}_{kind}")
        size = DTYPE_BYTES[operand.expr.dtype]
        aligned = f"__align__({pairs.vector * size}) {CTYPES[operand.expr.dtype]}"
        rows = "[PIECE]" if operand.axis is None else f"[TILE][PIECE + {padding_of(size)}]"
        lines.append(f"__shared__ {aligned} {name}{rows};")
    return lines


def _place(one: PairFrame) -> list[str]:
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
    return [*lines, *one.placed(others, "(tiles * below)")]


# ------------------------------------------------------------------------------------ a piece


def _started(sums: Sequence[AccumulatorText]) -> list[str]:
    lines = [f"{one.ctype} {one.name.replace('[r][c]', '[BELOW][RIGHT]')};" for one in sums]
    return [*lines, *_each_result([f"{one.name} = {one.start};" for one in sums])]


def _each_result(body: list[str]) -> list[str]:
    inner = ["#pragma unroll", *block("for (int c = 0; c < RIGHT; ++c)", body)]
    return ["#pragma unroll", *block("for (int r = 0; r < BELOW; ++r)", inner)]


# ------------------------------------------------------------------------------------ results


def _written(one: PairFrame, kernel: Kernel, sums: Sequence[AccumulatorText]) -> list[str]:
    """What is made of the reductions, from registers."""
    columns = one.size(one.pairs.columns)
    results: dict[int, Text] = {}
    for text in sums:
        results.update(zip(text.accumulator.keys, text.results(columns), strict=True))
    lines = one.stored(kernel, results)
    place = [
        "const int row = first_row + line + r * DOWN;",
        "const int col = first_col + lane + c * ACROSS;",
    ]
    return _each_result([*place, *block(f"if (row < {one.down} && col < {one.across})", lines)])
