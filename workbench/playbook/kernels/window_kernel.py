"""Kernels whose blocks make rows in shared memory and look at them through windows.

Owns the text of such a kernel; window_parts.py says which two kernels it is made of, and what lies where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from workbench.playbook.analysis.window_parts import Parts, blocks_of, parts_of
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.flat_kernel import line_scope, narrow_limits, narrowed, store_elements
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for
from workbench.playbook.kernels.packs import packs_of
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import VectorIndex, index_text, is_unit, name_pieces, once_a_vector
from workbench.playbook.text.scope import statement

_WORDS = (
    "STRETCHES", "EACH", "REACH", "FIT", "SHARE", "SPAN", "SLACK", "e", "result", "first_result",
    "column", "first_column", "aligned",
)  # fmt: skip


def window_kernel(site: Site, kernel: Kernel, ahead: Kernel, name: str) -> KernelText:
    """Write the kernel of ``kernel``'s stores, with what ``ahead`` makes in shared memory."""
    parts = parts_of(kernel, site.program.stencils)
    assert parts is not None
    loads = loads_below(store.value for store in ahead.stores)
    vector = site.schedule.width > 1 and any(is_unit(load.view) for load in loads)
    text = _written(site, kernel, ahead, (parts, name), vector)
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, kernel, ahead, (parts, name), vector=False)


def _written(site: Site, kernel: Kernel, ahead: Kernel, what: tuple[Parts, str], vector: bool) -> KernelText:
    parts, name = what
    frame = frame_for(site, kernel, vector)
    frame.need_operations([store.value for store in ahead.stores])
    for word in _WORDS:
        frame.names.new(word)
    blocks = blocks_of(parts, site.schedule.threads)
    results = parts.window.out
    shared = {buffer: frame.names.new(f"{buffer}_here") for buffer in parts.buffers}
    lines = [
        "// A block makes what windows along a row share, once, in shared memory: it reads along memory, and",
        "// windows that begin anywhere are looked for where that costs nothing.",
        *blocks.constants(frame.macros.text(parts.rows), frame.macros.text(results)),
        *_head(frame, parts),
        *(_array(frame, buffer, array) for buffer, array in shared.items()),
        *_parts(frame, parts, ahead, shared),
        "__syncthreads();",
        *_results(frame, parts, kernel, shared),
    ]
    grid = blocks.grid(site.size(parts.rows), site.size(results))
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    whole = Kernel([*ahead.stores, *kernel.stores])
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, whole))


def _array(frame: Frame, buffer: str, array: str) -> str:
    ctype = frame.element_type(buffer)
    aligned = f"__align__(sizeof({ctype}) * VEC) " if frame.vector else ""
    return f"__shared__ {aligned}{ctype} {array}[ABREAST * SPAN];"


def _head(frame: Frame, parts: Parts) -> list[str]:
    """Where the block's results are, and the parts under their windows."""
    window = parts.window
    first = f"first_result * {window.stride}" if window.stride > 1 else "first_result"
    first = f"{first} - {window.padding}" if window.padding else first
    place = [
        "const size_t first_row = size_t(blockIdx.x) / STRETCHES * ABREAST;",
        "const int first_result = blockIdx.x % STRETCHES * EACH;",
        f"const int first_column = {first};",
    ]
    if not frame.vector:
        return ["constexpr int SPAN = REACH;", *place]
    begins = f"STRETCHES > 1 || {window.padding} % VEC" if window.padding else "STRETCHES > 1"
    return [
        f"constexpr int SLACK = {begins} ? VEC - 1 : 0;  // columns before the first, to a vector's border",
        "constexpr int SPAN = (REACH + SLACK + VEC - 1) / VEC * VEC;",
        *place,
        "const int aligned = first_column & -VEC;",
    ]


# ------------------------------------------------------------------------------------ what is made ahead


def _parts(frame: Frame, parts: Parts, ahead: Kernel, shared: dict[str, str]) -> list[str]:
    """The loop over all parts of the block, those outside among them."""
    vec = " * VEC" if frame.vector else ""
    if frame.vector:
        frame.divisors.add(parts.width)  # else a vector would go on in the next row
    width, rows = frame.macros.text(parts.width), frame.macros.text(parts.rows)
    body = _vectors(frame, ahead, shared) if frame.vector else _elements(frame, ahead, shared)
    index = [f"const size_t i = row * {width} + column;", *body]
    fills = []
    for stencil, buffer in zip(parts.stencils, parts.buffers, strict=True):
        fill = frame.stored(buffer, line_scope(frame, lambda view: Text("0"), {}).text(stencil.fill).code)
        fills.append(f"{shared[buffer]}[e{' + k' if frame.vector else ''}] = {fill};")
    if frame.vector:
        fills = ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", fills)]
    inside = f"row < {rows} && {'column >= 0 && ' if parts.window.padding else ''}column < {width}"
    return block(
        f"for (int e = threadIdx.x{vec}; e < ABREAST * SPAN; e += THREADS{vec})",
        [
            "const size_t row = first_row + e / SPAN;",
            f"const int column = {'aligned' if frame.vector else 'first_column'} + e % SPAN;",
            *block(f"if ({inside})", index)[:-1],
            *block("} else", fills),
        ],
    )


def _elements(frame: Frame, ahead: Kernel, shared: dict[str, str]) -> list[str]:
    scope = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), {})
    scope.prepare(store.value for store in ahead.stores)
    for store in ahead.stores:
        value = frame.stored(store.buffer, scope.text(store.value).code)
        scope.lines += statement(f"{shared[store.buffer]}[e] = {value};")
    return name_pieces(scope.lines, "i", frame.names)


def _vectors(frame: Frame, ahead: Kernel, shared: Mapping[str, str]) -> list[str]:
    frame.helpers.add("store")
    return made_in_vectors(frame, ahead, lambda buffer, pack: [f"store({shared[buffer]} + e, {pack});"])


def made_in_vectors(frame: Frame, ahead: Kernel, put: Callable[[str, str], list[str]]) -> list[str]:
    """Statements that make a vector of each result, from index ``i`` on, and ``put`` it where it waits."""
    frame.helpers.add("load")
    packs = packs_of(frame, ahead, partial(line_scope, frame))
    at = VectorIndex("i", frame.site.schedule.width, frame.names, frame.macros)
    inner = line_scope(frame, lambda view: at.text(view, wide=True), packs.elements)
    inner.bound.update(packs.conditions)
    inner.prepare(store.value for store in ahead.stores)
    lines, after = packs.lines, list[str]()
    for store in ahead.stores:
        value = frame.stored(store.buffer, inner.text(store.value).code)
        pack = frame.names.new(f"{store.buffer}_pack")
        lines.append(f"Pack<{frame.element_type(store.buffer)}, VEC> {pack};")
        inner.lines += statement(f"{pack}.at[k] = {value};")
        after += put(store.buffer, pack)
    each = inner.lines
    for variable in at.all:
        each = name_pieces(each, variable, frame.names)
    each = once_a_vector(each)
    each = at.named(each, "size_t")
    lines = [*lines, "#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", each), *after]
    return name_pieces(lines, "i", frame.names)


# ------------------------------------------------------------------------------------ what is made of it


def _results(frame: Frame, parts: Parts, kernel: Kernel, shared: dict[str, str]) -> list[str]:
    """The loop over the block's results."""
    window = parts.window
    scope = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), {})
    for stencil, buffer in zip(parts.stencils, parts.buffers, strict=True):
        assert isinstance(stencil.source, Load)
        for serial, (*_, along) in stencil.places.items():
            place = f"at + {along * window.dilation}" if along else "at"
            scope.bound[serial] = frame.value(stencil.source, f"{shared[buffer]}[{place}]")
    frame.names.new("at")
    scope.prepare(store.value for store in kernel.stores)
    store_elements(frame, scope, kernel)
    results, rows = frame.macros.text(window.out), frame.macros.text(parts.rows)
    slide = f"e % EACH * {window.stride}" if window.stride > 1 else "e % EACH"
    at = f"e / EACH * SPAN + {slide}" + (" + first_column - aligned" if frame.vector else "")
    inner = [
        f"const size_t i = row * {results} + result;",
        f"const int at = {at};",
        *name_pieces(scope.lines, "i", frame.names),
    ]
    return block(
        "for (int e = threadIdx.x; e < ABREAST * EACH; e += THREADS)",
        [
            "const size_t row = first_row + e / EACH;",
            "const int result = first_result + e % EACH;",
            *block(f"if (row < {rows} && result < {results})", inner),
        ],
    )
