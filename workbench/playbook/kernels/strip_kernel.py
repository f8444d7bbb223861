"""Kernels of sliding windows whose threads have results one below the other: they share what they read.

Owns the text of such a kernel; stencil.py says which windows there are. Neighbouring threads have
neighbouring columns, so that every row is read as it lies in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.ir.expr import Expr, Index, Load, leaves
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.stencil import Stencil, Window, seen_of
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.flat_kernel import narrow_limits, narrowed, store_elements
from workbench.playbook.kernels.kernel_text import KernelText, Site, block, frame_for, lookup_text
from workbench.playbook.kernels.planes import Planes, plus, times
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, name_pieces
from workbench.playbook.text.scope import Scope, statement


@dataclass
class _Strips(Planes):
    """The kernel being written: its windows, and what the coordinates of a thread are called."""

    first: str = ""
    """The first of the thread's rows of results."""

    @property
    def rows(self) -> int:
        return self.frame.site.schedule.strip


def strip_kernel(site: Site, kernel: Kernel, name: str, stencils: tuple[Stencil, ...]) -> KernelText:
    """Write the kernel of stores over the same line, whose windows overlap from row to row."""
    frame = frame_for(site, kernel, vector=False)
    for word in ("r", "strip", "down", "across", "deep", "at_y", "at_x", "at_z"):
        frame.names.new(word)
    plane, first, column = (frame.names.new(word) for word in ("plane", "first_y", "column"))
    strips = _Strips(frame, stencils, plane, column, first=first)
    seen = [line for stencil in stencils for line in _seen(strips, stencil)]
    shared = strips.scope()
    for part in strips.same([store.value for store in kernel.stores]):
        shared.name(part)
    steady = name_pieces([*seen, *shared.lines], strips.plane, frame.names)
    lines = [*_head(strips), *steady, *_results(strips, kernel, shared)]
    one = stencils[0]
    parts = [site.factor(one.planes), f"cdiv({site.size(one.down.out)}, {strips.rows})"]
    grid = f"cdiv({' * '.join([*parts, site.factor(one.along.out)])}, {site.schedule.threads})"
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


def _head(strips: _Strips) -> list[str]:
    one = strips.stencils[0]
    down, along = strips.size(one.down.out), strips.size(one.along.out)
    return [
        f"constexpr int DOWN = {strips.rows};",
        f"constexpr int PIECES = ({down} + DOWN - 1) / DOWN;",
        "// A thread has DOWN results, one below the other: their windows have most rows in common.",
        "const size_t strip = size_t(blockIdx.x) * THREADS + threadIdx.x;",
        f"const int {strips.column} = strip % {along};",
        f"const int {strips.first} = strip / {along} % PIECES * DOWN;",
        f"const size_t {strips.plane} = strip / {along} / PIECES;",
        *block(f"if ({strips.plane} >= {strips.size(one.planes)})", ["return;"]),
    ]


# ------------------------------------------------------------------------------------ what is read


def _seen(strips: _Strips, stencil: Stencil) -> list[str]:
    """The statements that read what the thread's windows cover; notes what their places are called."""
    first = next((e.buffer for e in leaves(stencil.source) if isinstance(e, Load)), "window")
    name = strips.frame.names.new(f"{first}_seen")
    high, wide = seen_of(stencil.down, strips.rows), seen_of(stencil.along, 1)
    deep = stencil.windows[:-2]
    for serial, offsets in stencil.places.items():
        *_, down, along = (at * w.dilation for at, w in zip(offsets, stencil.windows, strict=True))
        layer = "".join(f"[{at}]" for at in offsets[:-2])
        row = f"{times('r', stencil.down.stride)}{plus(down)}"
        strips.places[serial] = Text(f"{name}{layer}[{row}][{along}]")
    lines, inner = _element(strips, stencil, name)
    body = _each("across", wide, "at_x", (strips.column, stencil.along), inner)
    body = _each("down", high, "at_y", (strips.first, stencil.down), body)
    layers = ""
    for window in deep:
        depth = f"{strips.plane} % {strips.size(window.out)}"
        layers = f"[{window.count}]"
        body = _each("deep", window.count, "at_z", (f"int({depth})", window), body, window.dilation)
    array = f"{CTYPES[stencil.source.dtype]} {name}{layers}[{high}][{wide}];"
    return [*lines, "// All that the windows of these results cover, each element once.", array, *body]


def _each(
    counter: str, count: int, place: str, at: tuple[str, Window], body: list[str], apart: int = 1
) -> list[str]:
    """A loop over what a thread reads along one axis, and where that is in the tensor."""
    start, window = at
    code = f"{times(start, window.stride)}{plus(-window.padding)}"
    head = f"for (int {counter} = 0; {counter} < {count}; ++{counter})"
    return [
        "#pragma unroll",
        *block(head, [f"const int {place} = {code} + {times(counter, apart)};", *body]),
    ]


def _element(strips: _Strips, stencil: Stencil, name: str) -> tuple[list[str], list[str]]:
    """Statements in front of the loops, and those that read one element within them."""
    frame, ahead = strips.frame, []
    names = ["at_z", "at_y", "at_x"][-len(stencil.windows) :]
    sizes = stencil.seen
    tests = []
    for place, size, window in zip(names, sizes, stencil.windows, strict=True):
        tests += [f"{place} >= 0"] if window.padding else []
        # Of rows the last strip may have fewer than others; whole windows lie in the tensor along other axes.
        if place == "at_y" or window.padding or window.ceil:
            tests += [f"{place} < {strips.size(size)}"]

    def leaf(expr: Expr) -> Text:
        assert isinstance(expr, (Load, Index))
        base, index = _coordinates(strips, stencil, expr.view, names)
        if base:
            word = expr.buffer if isinstance(expr, Load) else "index"
            start = frame.names.new(f"{word}_plane")
            ahead.append(f"const size_t {start} = {base};")
            index = f"{start} + {index}" if index != "0" else start
        if isinstance(expr, Index):
            return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({index})")
        code = lookup_text(expr, Text(index), frame, scope.text)
        return frame.value(expr, frame.element(expr.buffer, code))

    scope = Scope(leaf, frame.names, frame.macros, frame.site.schedule.fast_math)
    value, fill = scope.text(stencil.source).code, scope.text(stencil.fill).code
    layer = "[deep]" if len(names) > 2 else ""
    element = f"{name}{layer}[down][across]"
    inside = " && ".join(tests)
    if not scope.lines:
        return ahead, statement(f"{element} = {inside} ? {value} : {fill};")
    return ahead, [f"{element} = {fill};", *block(f"if ({inside})", [*scope.lines, f"{element} = {value};"])]


def _coordinates(strips: _Strips, stencil: Stencil, view: View, names: Sequence[str]) -> tuple[str, str]:
    """Where the plane of a view begins, and the element from there; the whole in the second otherwise."""
    macros = strips.frame.macros
    plane = strips.plane
    for window in stencil.windows[:-2]:
        plane = f"({plane} / {strips.size(window.out)})"
    found = stencil.steps(view)
    if found is None:
        line = plane
        for name, size in zip(names, stencil.seen, strict=True):
            line = f"({line} * {macros.text(size)} + {name})"
        return "", index_text(view, line, macros, wide=True).code
    base = index_text(found[0], plane, macros, wide=True).code
    steps = zip(names, found[1], strict=True)
    terms = [name if by.is_one else f"{name} * {macros.text(by)}" for name, by in steps if not by.is_zero]
    return ("" if base == "0" else base), " + ".join(terms) or "0"


# ------------------------------------------------------------------------------------ what is made of it


def _results(strips: _Strips, kernel: Kernel, shared: Scope) -> list[str]:
    """A loop over the thread's results."""
    frame, one = strips.frame, strips.stencils[0]
    down, along = strips.size(one.down.out), strips.size(one.along.out)
    scope = strips.scope()
    scope.bound.update(shared.bound)
    scope.bound.update(strips.places)
    scope.prepare(store.value for store in kernel.stores)
    store_elements(frame, scope, kernel)
    index = f"const size_t i = ({strips.plane} * {down} + {strips.first} + r) * {along} + {strips.column};"
    inner = block(f"if ({strips.first} + r < {down})", [index, *name_pieces(scope.lines, "i", frame.names)])
    return ["#pragma unroll", *block("for (int r = 0; r < DOWN; ++r)", inner)]
