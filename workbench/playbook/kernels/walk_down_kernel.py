"""Kernels of sliding windows whose threads walk down their plane: a row is read once, for all its windows.

Owns the text of such a kernel; row_cuts.py says what is made of each row, and what waits for the next.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import partial

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.row_cuts import RowCut
from workbench.playbook.ir.expr import Expr, Load, leaves
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.stencil import seen_of
from workbench.playbook.ir.views import View, merged
from workbench.playbook.kernels.flat_kernel import narrow_limits, narrowed
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for, indented
from workbench.playbook.kernels.plane_walks import (
    PlaneWalk,
    at_row,
    each_row,
    loops,
    read_ahead,
    several,
    taking,
    waiting_values,
)
from workbench.playbook.kernels.planes import plus, times
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, name_pieces
from workbench.playbook.text.scope import Scope, statement

_MOST_BYTES = 16
"""Of one memory instruction."""
_WORDS = ("strip", "first_y", "last_y", "y", "at_y", "at_x", "begun", "read", "take", "r", "next", "there")


def vector_of(cut: RowCut, side: int, bytes_of: dict[str, int]) -> int:
    """Elements that a thread with so many results side by side reads at a time, where rows allow it."""
    loads = [leaf for one in cut.stencils for leaf in leaves(one.source) if isinstance(leaf, Load)]
    widest = max(bytes_of[load.buffer] for load in loads)
    return min(side, _MOST_BYTES // widest)


def walk_down_kernel(site: Site, kernel: Kernel, name: str, cut: RowCut) -> KernelText:
    """Write the kernel of stores over the same line, whose windows can be taken row by row."""
    loads = [leaf for one in cut.stencils for leaf in leaves(one.source) if isinstance(leaf, Load)]
    sizes = {load.buffer: DTYPE_BYTES[site.buffer(load.buffer).dtype] for load in loads}
    width = vector_of(cut, site.schedule.side, sizes)
    text = _written(site, kernel, name, (cut, width))
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, kernel, name, (cut, 1))


@dataclass
class _Walk(PlaneWalk):
    """The kernel being written."""

    @property
    def vec(self) -> str:
        """Elements of a load."""
        return "VEC" if self.frame.vector else "1"


def _written(site: Site, kernel: Kernel, name: str, how: tuple[RowCut, int]) -> KernelText:
    cut, width = how
    own = replace(site, schedule=replace(site.schedule, width=width))
    frame = frame_for(own, kernel, vector=width > 1)
    for word in _WORDS:
        frame.names.new(word)
    frame.helpers.add("load_row")
    plane, column = (frame.names.new(word) for word in ("plane", "column"))
    walk = _Walk(frame, cut.stencils, plane, column, cut=cut)
    walk.places = {serial: Text("") for serial in cut.places}
    shared = walk.scope()
    for part in walk.same([store.value for store in kernel.stores]):
        shared.name(part)
    lines = [
        *_head(walk),
        *name_pieces([*read_ahead(walk, partial(_row, walk)), *shared.lines], plane, frame.names),
        *_take(walk, kernel, shared),
        *loops(walk),
    ]
    one = cut.stencils[0]
    side, down = site.schedule.side, site.schedule.down
    parts = [site.factor(one.planes), f"cdiv({site.size(one.down.out)}, {down})"]
    across = f"cdiv({site.size(one.along.out)}, {side})"
    grid = f"cdiv({' * '.join([*parts, across])}, {site.schedule.threads})"
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


def _head(walk: _Walk) -> list[str]:
    one, schedule = walk.stencils[0], walk.frame.site.schedule
    down, along = walk.size(one.down.out), walk.size(one.along.out)
    return [
        f"constexpr int SIDE = {schedule.side};",
        f"constexpr int GROUPS = ({along} + SIDE - 1) / SIDE;",
        f"constexpr int PIECES = ({down} + {schedule.down} - 1) / {schedule.down};",
        f"constexpr int DOWN = ({down} + PIECES - 1) / PIECES;",
        "// A thread has SIDE results side by side and walks down DOWN rows of them. It reads each row once,",
        "// for all results whose windows it lies in: these wait in registers until they are whole.",
        "const size_t strip = size_t(blockIdx.x) * THREADS + threadIdx.x;",
        f"const int {walk.column} = strip % GROUPS * SIDE;",
        "const int first_y = strip / GROUPS % PIECES * DOWN;",
        f"const size_t {walk.plane} = strip / GROUPS / PIECES;",
        *block(f"if ({walk.plane} >= {walk.size(one.planes)})", ["return;"]),
        f"const int last_y = {down} % DOWN == 0 || first_y + DOWN < {down} ? first_y + DOWN : {down};",
    ]


# ------------------------------------------------------------------------------------ what is read


def _row(walk: _Walk, number: int, load: Load) -> tuple[list[str], list[str]]:
    """Statements in front of the walk, and those that read the rows of one step."""
    frame, cut, stencil = walk.frame, walk.cut, walk.stencils[number]
    found = stencil.steps(load.view)
    assert found is not None
    outer, (down, _), _ = found
    height, width = (walk.size(size) for size in stencil.seen)
    if frame.vector:
        frame.vectors.add(load.buffer)
        frame.divisors.update([stencil.seen[-1], *_borders(outer)])
        frame.divisors.update([] if down.is_zero else [down])
    array = walk.read[number, load.serial] = frame.names.new(f"{load.buffer}_next")
    rows, seen = cut.rows(stencil), seen_of(stencil.along, frame.site.schedule.side)
    plane = index_text(outer, walk.plane, frame.macros, wide=True).code
    start = frame.names.new(f"{load.buffer}_plane")
    ctype = frame.element_type(load.buffer)
    fill = f"{ctype}(0)"
    if load is stencil.source:
        fill = frame.stored(load.buffer, walk.scope().text(stencil.fill).code)
    column = times(walk.column, stencil.along.stride)
    across = f"{start} + {'' if down.is_zero else f'at_y * {walk.size(down)} + '}{column}"
    end = frame.names.new(f"{load.buffer}_end")
    last = f"{times('last_y', cut.stride)}{plus((cut.last - 1) * cut.stride - cut.before + rows)}"
    ahead = [
        f"const size_t {start} = {plane};",
        f"const int {end} = {last} < {height} ? {last} : {height};",
        f"{ctype} {array}{several(walk.ahead)}{several(rows)}[{seen}];",
    ]
    row = f"{array}{walk.slot('slot')}{'[r]' if rows > 1 else ''}"
    there = f"at_y >= 0 && at_y < {end}"
    return ahead, [
        "#pragma unroll",
        *block(f"for (int k = 0; k < {seen}; ++k)", [f"{row}[k] = {fill};"]),
        f"load_row<{walk.vec}, {stencil.along.padding}>(",
        f"    {row}, {frame.pointer(load.buffer)} + {across}, {column}, {width}, {there});",
    ]


def _borders(outer: View) -> list[Size]:
    """What the width of a vector must divide, for planes to begin at borders of vectors."""
    strides = [axis.stride for axis in merged(outer).axes if not axis.stride.is_zero]
    return strides if outer.offset.is_zero else [*strides, outer.offset]


# ------------------------------------------------------------------------------------ what is made of it


def _take(walk: _Walk, kernel: Kernel, shared: Scope) -> list[str]:
    """The arrays of what waits, and the function that takes in the rows of a step."""
    cut, frame = walk.cut, walk.frame
    arrays, waiting = waiting_values(walk)
    seen = [line for number in range(len(walk.stencils)) for line in _seen(walk, number)]
    packs = {store.buffer: frame.names.new(f"{store.buffer}_pack") for store in kernel.stores if _runs(store)}
    each: list[str] = []
    for level in range(cut.last, -1, -1):
        scope = walk.scope(frame.names.inner())
        scope.bound.update(shared.bound)
        if level:
            earlier = zip(cut.waiting[level - 1], waiting[level - 1], strict=True)
            scope.bound.update((part.serial, Text(place)) for part, place in earlier)
        scope.bound.update((s, walk.places[s]) for s, place in cut.places.items() if place.level == level)
        each += _level(walk, kernel, (level, scope), waiting, packs)
    last = f", {walk.ahead - 1}" if walk.ahead > 1 else ""
    declared = [f"Pack<{frame.element_type(buffer)}, SIDE> {pack};" for buffer, pack in packs.items()]
    body = [*seen, f"read(y + {walk.ahead}{last});", *declared, "#pragma unroll"]
    body += block("for (int k = 0; k < SIDE; ++k)", each)
    if packs:
        body += block(f"if (begun == {cut.last})", _stored(walk, packs))
    return taking(arrays, body)


def _seen(walk: _Walk, number: int) -> list[str]:
    """What was read, as the type it computes in; notes where the elements of windows are then."""
    stencil = walk.stencils[number]
    frame, cut, along = walk.frame, walk.cut, stencil.along
    rows, count = cut.rows(stencil), seen_of(along, frame.site.schedule.side)
    first = next(leaf for leaf in leaves(stencil.source) if isinstance(leaf, Load))
    name = frame.names.new(f"{first.buffer}_seen")
    for serial, place in cut.places.items():
        if place.stencil is stencil:
            column = f"{times('k', along.stride)}{plus(place.along)}"
            at = f"[{place.row}]" if rows > 1 else ""
            walk.places[serial] = Text(f"{name}{at}[{column}]")

    row = "[r]" if rows > 1 else ""

    def leaf(expr: Expr) -> Text:
        assert isinstance(expr, Load)
        return frame.value(expr, f"{walk.read[number, expr.serial]}{walk.slot('0')}{row}[k]")

    scope = Scope(leaf, frame.names.inner(), frame.macros, frame.site.schedule.fast_math)
    value = scope.text(stencil.source).code
    if isinstance(stencil.source, Load):
        inner = [f"{name}{row}[k] = {value};"]
    else:
        height, width = (walk.size(size) for size in stencil.seen)
        at_y = f"{at_row(cut)}{' + r' if row else ''}"
        at_x = f"{times(walk.column, along.stride)}{plus(-along.padding)} + k"
        inside = f"at_y >= 0 && at_y < {height} && at_x >= 0 && at_x < {width}"
        inner = [f"const int at_y = {at_y};", f"const int at_x = {at_x};", *scope.lines]
        inner += statement(f"{name}{row}[k] = {inside} ? {value} : {scope.text(stencil.fill).code};")
    loop = ["#pragma unroll", *block(f"for (int k = 0; k < {count}; ++k)", inner)]
    return [
        f"{CTYPES[stencil.source.dtype]} {name}{several(rows)}[{count}];",
        *each_row(rows, loop),
        *(line for leaf in leaves(stencil.source) for line in _moved_up(walk, number, leaf.serial)),
    ]


def _moved_up(walk: _Walk, number: int, serial: int) -> list[str]:
    """What is on its way for the step after the next is for the next from now on."""
    stencil, array = walk.stencils[number], walk.read[number, serial]
    rows, count = walk.cut.rows(stencil), seen_of(stencil.along, walk.frame.site.schedule.side)
    row = "[r][k]" if rows > 1 else "[k]"
    loop = block(f"for (int k = 0; k < {count}; ++k)", [f"{array}[slot - 1]{row} = {array}[slot]{row};"])
    body = each_row(rows, ["#pragma unroll", *loop])
    if walk.ahead == 1:
        return []
    return ["#pragma unroll", *block(f"for (int slot = 1; slot < {walk.ahead}; ++slot)", body)]


def _level(
    walk: _Walk,
    kernel: Kernel,
    at: tuple[int, Scope],
    waiting: list[list[str]],
    packs: dict[str, str],
) -> list[str]:
    """What the rows add to results of one level; whole ones are stored, or put side by side for that."""
    (level, scope), cut = at, walk.cut
    if level < cut.last:
        parts = cut.waiting[level]
        scope.prepare(part for part in parts if part.serial not in scope.bound)
        values = [scope.text(part).code for part in parts]
        scope.lines += [
            line
            for place, value in zip(waiting[level], values, strict=True)
            for line in statement(f"{place} = {value};")
        ]
        return block(f"if (begun >= {level})", scope.lines) if level else scope.lines
    scope.prepare(store.value for store in kernel.stores)
    frame = walk.frame
    for store in kernel.stores:
        value = frame.stored(store.buffer, scope.text(store.value).code)
        index = index_text(store.view, "i", frame.macros, wide=True)
        place = f"{packs[store.buffer]}.at[k]" if _runs(store) else frame.element(store.buffer, index)
        scope.lines += statement(f"{place} = {value};")
    lines = name_pieces(scope.lines, "i", frame.names)
    width = walk.size(walk.stencils[0].along.out)
    inside = f"({width} % SIDE == 0 || {walk.column} + k < {width})"
    if any(re.search(r"\bi\b", line) for line in lines):
        lines = [f"const size_t i = {_index(walk)} + k;", *lines]
    return block(f"if (begun == {level} && {inside})", lines)


def _runs(store: Store) -> bool:
    """True for a result whose rows lie one behind the other."""
    return store.view.is_linear


def _index(walk: _Walk) -> str:
    """Of the thread's first result in row y."""
    one = walk.stencils[0]
    down, along = walk.size(one.down.out), walk.size(one.along.out)
    return f"({walk.plane} * {down} + y) * {along} + {walk.column}"


def _stored(walk: _Walk, packs: dict[str, str]) -> list[str]:
    """Whole results, with one store where rows are whole numbers of packs."""
    frame = walk.frame
    schedule, width = frame.site.schedule, walk.size(walk.stencils[0].along.out)
    whole, half, apart = list[str](), list[str](), list[str]()
    for buffer, pack in packs.items():
        streamed = (schedule.stream or schedule.stream_stores) and frame.has_hints(buffer)
        function = "store_once" if streamed else "store"
        frame.helpers.add(function)
        whole.append(f"{function}({frame.pointer(buffer)} + i, {pack});")
        part = f"*reinterpret_cast<const Pack<{frame.element_type(buffer)}, HALF>*>(&{pack}.at[k])"
        half.append(f"{function}({frame.pointer(buffer)} + i + k, {part});")
        apart.append(f"{frame.pointer(buffer)}[i + k] = {pack}.at[k];")
    inside = block(f"if ({walk.column} + k < {width})", apart)
    each = ["#pragma unroll", *block("for (int k = 0; k < SIDE; ++k)", inside)]
    return [
        f"const size_t i = {_index(walk)};",
        *block(f"if constexpr ({width} % SIDE == 0)", whole)[:-1],
        *_in_halves(walk, half),
        *block("} else", each),
    ]


def _in_halves(walk: _Walk, stores: list[str]) -> list[str]:
    """The branch for rows of whole halves of packs: one by one, a store touches every fourth element."""
    if walk.frame.site.schedule.side < 4:
        return []
    width = walk.size(walk.stencils[0].along.out)
    loop = block("for (int k = 0; k < SIDE; k += HALF)", block(f"if ({walk.column} + k < {width})", stores))
    return [
        f"}} else if constexpr ({width} % (SIDE / 2) == 0) {{",
        "    constexpr int HALF = SIDE / 2;",
        *indented(["#pragma unroll", *loop]),
    ]
