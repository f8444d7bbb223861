"""Kernels of sliding windows over planes that lie side by side: a thread walks down several of them at once.

Owns the text of such a kernel; row_cuts.py says what is made of each row, and what waits for the next;
beside_rows.py reads the rows and plane_values.py what all results of a plane share. Channels-last images have
such planes: what neighbouring threads read are neighbouring channels.
"""

from __future__ import annotations

import re

from workbench.playbook.analysis.row_cuts import RowCut, outside
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.kernels.beside_rows import BesideWalk, read_rows, rows_seen
from workbench.playbook.kernels.flat_kernel import narrow_limits, narrowed
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for
from workbench.playbook.kernels.plane_values import values_of_planes
from workbench.playbook.kernels.plane_walks import loops, taking, waiting_values
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope, statement

_WORDS = (
    "strip", "first_y", "last_y", "y", "at_y", "at_x", "begun", "read", "take", "r", "c", "slot", "inside",
)  # fmt: skip


def walk_beside_kernel(site: Site, kernel: Kernel, name: str, cut: RowCut) -> KernelText:
    """Write the kernel of stores over the same line, whose planes lie side by side."""
    text = _written(site, kernel, name, (cut, site.schedule.width > 1))
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, kernel, name, (cut, False))


def _written(site: Site, kernel: Kernel, name: str, how: tuple[RowCut, bool]) -> KernelText:
    cut, vector = how
    frame = frame_for(site, kernel, vector=vector)
    for word in _WORDS:
        frame.names.new(word)
    one = cut.stencils[0]
    image, plane, column = (frame.names.new(word) for word in ("image", "plane", "column"))
    walk = BesideWalk(frame, cut.stencils, plane, column, image=image, cut=cut)
    walk.places = {serial: Text("") for serial in cut.places}
    if vector:
        frame.divisors.add(one.beside)
    roots = [store.value for store in kernel.stores]
    shared = values_of_planes(walk, roots)
    lines = [
        *_head(walk),
        *read_rows(walk),
        *shared.lines,
        *_take(walk, kernel, shared.bound),
        *loops(walk),
    ]
    side, down = site.schedule.side, site.schedule.down
    factors = [one.images, one.beside]
    parts = [site.factor(size) for size in factors if not size.is_one] + [
        f"cdiv({site.size(one.down.out)}, {down})"
    ]
    work = " * ".join([*parts, f"cdiv({site.size(one.along.out)}, {side})"])
    grid = f"cdiv({work}, {site.schedule.threads}{' * {width}' if vector else ''})"
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


def _head(walk: BesideWalk) -> list[str]:
    one, schedule = walk.stencils[0], walk.frame.site.schedule
    down, along, beside = walk.size(one.down.out), walk.size(one.along.out), walk.size(one.beside)
    packs = f"{beside} / {walk.vec}" if walk.frame.vector else beside
    return [
        f"constexpr int SIDE = {schedule.side};",
        f"constexpr int PACKS = {packs};",
        f"constexpr int GROUPS = ({along} + SIDE - 1) / SIDE;",
        f"constexpr int PIECES = ({down} + {schedule.down} - 1) / {schedule.down};",
        f"constexpr int DOWN = ({down} + PIECES - 1) / PIECES;",
        "// Planes lie side by side: neighbouring threads have neighbouring ones, and read them together. A",
        "// thread walks down DOWN rows of SIDE results each, and reads each row once, for all results whose",
        "// windows it lies in: these wait in registers until they are whole.",
        "const size_t strip = size_t(blockIdx.x) * THREADS + threadIdx.x;",
        f"const int {walk.plane} = strip % PACKS{f' * {walk.vec}' if walk.frame.vector else ''};",
        f"const int {walk.column} = strip / PACKS % GROUPS * SIDE;",
        "const int first_y = strip / PACKS / GROUPS % PIECES * DOWN;",
        f"const size_t {walk.image} = strip / PACKS / GROUPS / PIECES;",
        *block(f"if ({walk.image} >= {walk.size(one.images)})", ["return;"]),
        f"const int last_y = {down} % DOWN == 0 || first_y + DOWN < {down} ? first_y + DOWN : {down};",
    ]


# ------------------------------------------------------------------------------------ what is made of it


def _take(walk: BesideWalk, kernel: Kernel, shared: dict[int, Text]) -> list[str]:
    """The arrays of what waits, and the function that takes in the rows of a step."""
    cut, frame = walk.cut, walk.frame
    arrays, waiting = waiting_values(walk, walk.vec)
    here, each = list[str](), list[str]()
    for number in range(len(walk.stencils)):
        before, inner = rows_seen(walk, number)
        here += before
        each += inner
    packs = {store.buffer: frame.names.new(f"{store.buffer}_pack") for store in kernel.stores if _runs(store)}
    own = _own(walk, kernel)
    levels: list[str] = []
    for level in range(cut.last, -1, -1):
        scope = walk.result_scope(frame.names.inner())
        scope.bound.update(shared)
        if level:
            earlier = zip(cut.waiting[level - 1], waiting[level - 1], strict=True)
            scope.bound.update((part.serial, Text(place)) for part, place in earlier)
        scope.bound.update((s, walk.places[s]) for s, place in cut.places.items() if place.level == level)
        levels += _level(walk, kernel, (level, scope), waiting, packs)
    each += ["#pragma unroll", *block("for (int k = 0; k < SIDE; ++k)", levels)]
    last = f", {walk.ahead - 1}" if walk.ahead > 1 else ""
    declared = [f"{walk.pack(buffer)} {pack}[SIDE];" for buffer, pack in packs.items()]
    body = [*here, f"read(y + {walk.ahead}{last});", *own, *declared, "#pragma unroll"]
    body += block(f"for (int c = 0; c < {walk.vec}; ++c)", each)
    if packs:
        body += block(f"if (begun == {cut.last})", _stored(walk, packs))
    if any(re.search(r"\bi\b", line) for line in body):
        body = [f"const size_t i = {_index(walk)};", *body]
    return taking(arrays, body)


def _own(walk: BesideWalk, kernel: Kernel) -> list[str]:
    """Statements that read vectors of what whole results have of their own, such as a residual."""
    frame, one = walk.frame, walk.stencils[0]
    if not frame.vector:
        return []
    lines: list[str] = []
    for load in outside(kernel, walk.cut):
        if load.lookups or not load.view.is_linear:
            continue
        frame.helpers.add("load")
        frame.vectors.add(load.buffer)
        name = frame.names.new(f"{load.buffer}_pack")
        walk.packs[load.serial] = frame.value(load, f"{name}[k].at[c]")
        there = f"begun == {walk.cut.last} && ({_inside(walk)})"
        place = f"i + k * {walk.size(one.beside)}"
        body = block(f"if ({there})", [f"{name}[k] = load<VEC>({frame.pointer(load.buffer)} + {place});"])
        lines += [f"{walk.pack(load.buffer)} {name}[SIDE];", "#pragma unroll"]
        lines += block("for (int k = 0; k < SIDE; ++k)", body)
    return lines


def _level(
    walk: BesideWalk, kernel: Kernel, at: tuple[int, Scope], waiting: list[list[str]], packs: dict[str, str]
) -> list[str]:
    """What the rows add to results of one level; whole ones are put side by side, to be stored."""
    (level, scope), cut = at, walk.cut
    if level < cut.last:
        parts = cut.waiting[level]
        scope.prepare(part for part in parts if part.serial not in scope.bound)
        values = [scope.text(part).code for part in parts]
        for place, value in zip(waiting[level], values, strict=True):
            scope.lines += statement(f"{place} = {value};")
        return block(f"if (begun >= {level})", scope.lines) if level else scope.lines
    scope.prepare(store.value for store in kernel.stores)
    frame = walk.frame
    for store in kernel.stores:
        value = frame.stored(store.buffer, scope.text(store.value).code)
        index = index_text(store.view, "(i + c)", frame.macros, wide=True)
        place = f"{packs[store.buffer]}[k].at[c]" if _runs(store) else frame.element(store.buffer, index)
        scope.lines += statement(f"{place} = {value};")
    lines = scope.lines
    if any("(i + c)" in line for line in lines):
        name = frame.names.new("own_at")
        lines = [line.replace("(i + c)", name) for line in lines]
        lines = [f"const size_t {name} = i + k * {walk.size(walk.stencils[0].beside)} + c;", *lines]
    return block(f"if (begun == {level} && ({_inside(walk)}))", lines)


def _runs(store: Store) -> bool:
    """True for a result whose elements lie one behind the other."""
    return store.view.is_linear


def _inside(walk: BesideWalk) -> str:
    """What holds for columns of results that there are."""
    width = walk.size(walk.stencils[0].along.out)
    return f"{width} % SIDE == 0 || {walk.column} + k < {width}"


def _index(walk: BesideWalk) -> str:
    """Of the thread's first result in row y."""
    one = walk.stencils[0]
    down, along, beside = walk.size(one.down.out), walk.size(one.along.out), walk.size(one.beside)
    return f"(({walk.image} * {down} + y) * {along} + {walk.column}) * {beside} + {walk.plane}"


def _stored(walk: BesideWalk, packs: dict[str, str]) -> list[str]:
    """Whole results, a vector of neighbouring planes each."""
    frame, schedule = walk.frame, walk.frame.site.schedule
    lines: list[str] = []
    for buffer, pack in packs.items():
        frame.vectors.update([buffer] if frame.vector else [])
        streamed = (schedule.stream or schedule.stream_stores) and frame.has_hints(buffer)
        function = "store_once" if streamed else "store"
        frame.helpers.add(function)
        place = f"i + k * {walk.size(walk.stencils[0].beside)}"
        lines.append(f"{function}({frame.pointer(buffer)} + {place}, {pack}[k]);")
    return ["#pragma unroll", *block("for (int k = 0; k < SIDE; ++k)", block(f"if ({_inside(walk)})", lines))]
