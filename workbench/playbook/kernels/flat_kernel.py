"""Kernels without reductions: every element of one line of indices is computed on its own.

Owns the text of pointwise chains with broadcasting. Never decides which stores share a kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from workbench.playbook.analysis.again import BACKWARDS, goes_back
from workbench.playbook.ir.expr import Expr, Index, Load, behind_conditions, loads_below
from workbench.playbook.ir.paths import paths_of
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import Axis, View
from workbench.playbook.kernels.beside_vectors import end_of_row
from workbench.playbook.kernels.copies import copies_of, without
from workbench.playbook.kernels.copy_loop import along_copies, computed_once, grid_of_copies
from workbench.playbook.kernels.kernel_text import (
    Frame,
    KernelText,
    Limits,
    Site,
    block,
    frame_for,
    lookup_text,
)
from workbench.playbook.kernels.last_vector import is_partly_there
from workbench.playbook.kernels.packs import address, allowed, packs_of
from workbench.playbook.kernels.wanted_vectors import wanted_vectors
from workbench.playbook.kernels.whole_rows import Row, declared, rows_of
from workbench.playbook.kernels.woven_planes import Woven, woven_grid, woven_limits, woven_lines, woven_planes
from workbench.playbook.lowering.whole_places import MOST_EXACT, in_whole_numbers
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import (
    MOST_NARROW,
    VectorIndex,
    divisors_of,
    index_text,
    is_unit,
    name_pieces,
    once_a_vector,
)
from workbench.playbook.text.scope import Scope, statement


def flat_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of stores over the same line."""
    site.macros.name(kernel.stores[0].columns, "COUNT")
    places: tuple[Size, ...] = ()
    if site.schedule.narrow:
        whole, places = in_whole_numbers(site.program.pool, kernel)
        if all(size.at(case) <= MOST_EXACT for size in places for case in site.cases):
            kernel = whole
        else:
            places = ()
    unit = any(is_unit(store.view) for store in kernel.stores) or bool(rows_of(kernel.stores))
    vector = site.schedule.width > 1 and unit
    text = _written(site, kernel, name, vector, places)
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, kernel, name, False, places)


def _written(
    site: Site, kernel: Kernel, name: str, vector: bool, places: tuple[Size, ...] = ()
) -> KernelText:
    """The text; ``places`` are axes along which places were found in whole numbers."""
    frame = frame_for(site, kernel, vector)
    frame.finds_places = bool(places)
    if vector and is_partly_there(kernel, site.schedule, site.cases[: site.declared]):
        frame.ends_inside = frame.macros.text(kernel.stores[0].columns)
    copies = copies_of(kernel, site.schedule, site.cases[: site.declared]) if vector else None
    frame.copied = copies
    declared = site.cases[: site.declared]
    woven = woven_planes(kernel, site.schedule, declared, site.cases) if vector else None
    if woven is not None:
        return _woven(frame, kernel, name, woven)
    shared, body = _vector_body(frame, kernel) if vector else ([], _scalar_body(frame, kernel))
    if copies is not None:
        lines, grid = along_copies(frame, copies, shared, body), grid_of_copies(site, copies)
    else:
        lines, grid = line_loop(frame, kernel, body), line_grid(site, kernel)
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel, places))


def _woven(frame: Frame, kernel: Kernel, name: str, woven: Woven) -> KernelText:
    site = frame.site
    lines, grid = woven_lines(frame, kernel, woven, partial(line_scope, frame)), woven_grid(site, woven)
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid, woven_limits(site, woven, Limits()))
    return frame.finish(name, narrowed(lines), grid, woven_limits(site, woven, narrow_limits(site, kernel)))


def narrowed(lines: list[str]) -> list[str]:
    """The same with indices of 32 bits."""
    comment = "// Indices of 32 bits: fewer instructions than 64 take, most of all where they are divided."
    return [comment, *(re.sub(r"\bsize_t\b", "int", line) for line in lines)]


def narrow_limits(site: Site, kernel: Kernel, places: tuple[Size, ...] = ()) -> Limits:
    """Every tensor must be small enough, and axes along which places are computed short enough."""
    loads = loads_below(store.value for store in kernel.stores)
    names = dict.fromkeys([*(store.buffer for store in kernel.stores), *(load.buffer for load in loads)])
    sizes = [kernel.stores[0].columns, *(product(site.buffer(name).shape) for name in names)]
    counts = list(dict.fromkeys(site.size(size) for size in sizes if size.number is None))
    if not counts:
        return Limits()
    largest = counts[0] if len(counts) == 1 else f"max({', '.join(counts)})"
    fits = [f"{largest} <= {MOST_NARROW}"]
    fits += [f"{site.size(size)} <= {MOST_EXACT}" for size in places if size.number is None]
    return Limits("", " and ".join(fits), "indices of 32 bits need smaller tensors")


# ------------------------------------------------------------------------------------ the loop


def line_loop(frame: Frame, kernel: Kernel, body: list[str]) -> list[str]:
    """The body for every index ``i`` of the kernel's line that a thread has."""
    schedule = frame.site.schedule
    count = frame.macros.text(kernel.stores[0].columns)
    width = " * VEC" if frame.vector else ""
    first = "size_t(blockIdx.x) * THREADS + threadIdx.x"
    if schedule.persistent:
        lines = ["// A grid that fits the GPU once: every thread strides over the whole line."]
        lines += [f"const size_t step = size_t(gridDim.x) * THREADS{width};"]
        lines += [f"#pragma unroll {schedule.items}"] if schedule.items > 1 else []
        start = f"({first}){width}" if width else first
        return lines + block(f"for (size_t i = {start}; i < {count}; i += step)", body)
    if schedule.items > 1:
        start = f"(size_t(blockIdx.x) * {schedule.items} + item) * THREADS + threadIdx.x"
        index = f"const size_t i = ({start}){width};" if width else f"const size_t i = {start};"
        lines = [
            f"// {schedule.items} independent elements a thread keep as many loads in flight if all exist:",
            "// a load behind a branch waits until the one before it has arrived and was used.",
            f"constexpr bool WHOLE = {count} % ({schedule.items} * THREADS{width}) == 0;",
            "#pragma unroll",
        ]
        inner = [index, *block(f"if (WHOLE || i < {count})", body)]
        return lines + block(f"for (int item = 0; item < {schedule.items}; ++item)", inner)
    back = goes_back(frame.site.program, schedule, kernel, in_planes=False)
    if back:
        first = f"size_t(({count} - 1) / (THREADS{width}) - blockIdx.x) * THREADS + threadIdx.x"
    index = f"const size_t i = ({first}){width};" if width else f"const size_t i = {first};"
    index_lines = [BACKWARDS, index] if back else [index]
    beyond = f"if ({count} % (THREADS{width}) != 0 && i >= {count})"
    return [*index_lines, *block(beyond, ["return;"]), *body]


def line_grid(site: Site, kernel: Kernel) -> str:
    """Blocks of such a loop, in the plan language."""
    schedule = site.schedule
    count = site.size(kernel.stores[0].columns)
    items = schedule.threads * (1 if schedule.persistent else schedule.items)
    blocks = f"cdiv({count}, {items} * {{width}})"
    if schedule.persistent:
        return f"min({blocks}, gpu.sm_count * (gpu.threads_per_sm // {schedule.threads}))"
    return blocks


# ------------------------------------------------------------------------------------ one element


def _scalar_body(frame: Frame, kernel: Kernel) -> list[str]:
    scope = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), {})
    _read_first(scope, [store.value for store in kernel.stores], {})
    scope.prepare(store.value for store in kernel.stores)
    store_elements(frame, scope, kernel)
    return name_pieces(scope.lines, "i", frame.names)


def store_elements(
    frame: Frame, scope: Scope, kernel: Kernel, at: Callable[[View], Text] | None = None
) -> None:
    """Statements, in ``scope``, that store one element of each of a kernel's results: those of index ``i``,
    else where ``at`` says."""
    for store in kernel.stores:
        value = frame.stored(store.buffer, scope.text(store.value).code)
        index = at(store.view) if at else index_text(store.view, "i", frame.macros, wide=True)
        element = frame.element(store.buffer, index)
        if streams_stores(frame) and frame.has_hints(store.buffer):
            scope.lines.append(f"__stcs(&{element}, {value});")
        else:
            scope.lines += statement(f"{element} = {value};")


def line_scope(
    frame: Frame,
    at: Callable[[View], Text],
    packs: dict[int, str],
    position: Callable[[View], Text | None] | None = None,
    further: Callable[[Expr, Text], Text] | None = None,
) -> Scope:
    """Spells leaves where ``at`` finds them; ``packs`` are elements that were loaded as vectors.

    ``position`` spells places that are computed with, where it can. ``further`` says where a leaf is found
    instead, in a loop that takes it along.
    """

    def leaf(expr: Expr) -> Text:
        element = packs.get(expr.serial, "{element}")
        if isinstance(expr, Load) and "{element}" not in element:
            return frame.value(expr, element)
        assert isinstance(expr, (Load, Index))
        if isinstance(expr, Index) and position and (found := position(expr.view)):
            return found
        base = at(expr.view) if further is None else further(expr, at(expr.view))
        if isinstance(expr, Index):
            # Signed, as it may be compared with a negative number: how far a padding of some size cuts.
            return Text(
                f"int({base.code})" if expr.dtype == "i32" else f"static_cast<long long>({base.code})"
            )
        index = lookup_text(expr, base, frame, scope.text)
        alone = frame.element(expr.buffer, index)
        streamed = frame.site.schedule.stream and expr.view.is_linear and frame.has_hints(expr.buffer)
        alone = f"__ldcs(&{alone})" if streamed else alone
        return frame.value(expr, element.format(element=alone))

    scope = Scope(leaf, frame.names, frame.macros, frame.site.schedule.fast_math)
    return scope


# ------------------------------------------------------------------------------------ vectors


def vector_body(frame: Frame, kernel: Kernel) -> list[str]:
    """Statements for the vector that begins at index ``i``."""
    assert frame.copied is None
    _, lines = _vector_body(frame, kernel)
    return name_pieces(lines, "i", frame.names)


def _vector_body(frame: Frame, kernel: Kernel) -> tuple[list[str], list[str]]:
    """What all vectors of a thread share, and what is done for each."""
    frame.helpers.add("load")
    rows = rows_of(kernel.stores)
    frame.in_rows = bool(rows)
    frame.divisors.update(row.begin.axes[0].size for row in rows)
    once = () if frame.copied is None else frame.copied.values
    rest = without(frame.site.program.pool, kernel, once)
    wanted = wanted_vectors(frame, rest, partial(_condition, frame))
    packs = packs_of(frame, rest, partial(line_scope, frame), wanted.tests)
    lines = [*wanted.lines, *packs.lines]
    at, inner = _element_scope(frame, "i", packs.elements)
    inner.bound.update({**packs.conditions, **wanted.bound})
    inner.bound.update(_looked_up(frame, rest, packs.elements))
    before, names = _computed_once(frame, once, packs.elements)
    inner.bound.update(names)
    inner.lines += _ends_known(frame, rest, packs.elements, at, inner)
    _read_first(inner, [store.value for store in kernel.stores], packs.elements)
    inner.prepare(store.value for store in kernel.stores)
    in_rows, after = _in_rows(frame, rows, lines)
    for store in kernel.stores:
        value = frame.stored(store.buffer, inner.text(store.value).code)
        if (place := in_rows.get((store.buffer, store.view))) is not None:
            inner.lines += statement(f"{place} = {value};")
            continue
        if not is_unit(store.view):
            index = index_text(store.view, "(i + k)", frame.macros, wide=True)
            inner.lines += statement(f"{frame.element(store.buffer, index)} = {value};")
            continue
        pack = frame.names.new(f"{store.buffer}_pack")
        lines.append(f"Pack<{frame.element_type(store.buffer)}, VEC> {pack};")
        inner.lines += statement(f"{pack}.at[k] = {value};")
        if frame.ends_inside:
            frame.helpers.add("store_within")
            frame.vectors.add(store.buffer)
            line = frame.pointer(store.buffer)
            after.append(f"store_within<VEC, {frame.ends_inside}>({line}, i, {pack});")
            continue
        function = "store_once" if streams_stores(frame) and store.buffer not in frame.on_chip else "store"
        frame.helpers.add(function)
        after.append(f"{function}({address(frame, store.buffer, store.view)}, {pack});")
        frame.use_vector(store.buffer, store.view)
    each = _of_each(frame, at, inner.lines)
    shared = [*packs.shared, *before]
    return shared, [*lines, "#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", each), *after]


def _element_scope(
    frame: Frame, variable: str, elements: dict[int, str], places: bool = True
) -> tuple[VectorIndex, Scope]:
    """Element ``k`` of the vector that begins at index ``variable``, and a scope that computes it."""
    at = VectorIndex(variable, frame.site.schedule.width, frame.names, frame.macros)
    position = partial(_place_in_line, frame, variable) if frame.finds_places and places else None
    return at, line_scope(frame, lambda view: at.text(view, wide=True), elements, position)


def _computed_once(
    frame: Frame, values: Sequence[Expr], elements: dict[int, str]
) -> tuple[list[str], dict[int, Text]]:
    """Statements that compute values which a thread's copies share, and how these are called."""
    if not values:
        return [], {}
    at, scope = _element_scope(frame, "first", elements)
    _read_first(scope, list(values), elements)
    declared, names = computed_once(scope, values, frame)
    each = _of_each(frame, at, scope.lines)
    return [*declared, "#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", each)], names


def _of_each(frame: Frame, at: VectorIndex, lines: list[str]) -> list[str]:
    """Statements of one element of a vector. What is divided has a name, to be divided once a vector."""
    for variable in at.all:
        lines = name_pieces(lines, variable, frame.names, least=1 if variable == at.each else 2)
    return at.named(once_a_vector(lines, at.variable), "size_t")


def _condition(frame: Frame, condition: Expr, place: str) -> list[str]:
    """Statements that leave a condition of element ``k`` of a vector in ``place``."""
    at, scope = _element_scope(frame, "i", {}, places=False)
    _read_first(scope, [condition], {})
    scope.prepare([condition])
    text = scope.text(condition)
    return _of_each(frame, at, [*scope.lines, *statement(f"{place} = {text.code};")])


def _read_first(scope: Scope, roots: list[Expr], packs: Mapping[int, str]) -> None:
    """What ``&&`` and ``||`` would read behind a branch, for each element anew, is read before them."""
    for load in behind_conditions(roots, {*packs, *scope.bound}):
        scope.name(load)


def _looked_up(frame: Frame, kernel: Kernel, elements: Mapping[int, str]) -> dict[int, Text]:
    """Elements of vectors that were looked up: what found their places is not needed again for each."""
    loads = [load for load in loads_below(store.value for store in kernel.stores) if load.lookups]
    whole = [load for load in loads if "{element}" not in elements.get(load.serial, "{element}")]
    return {load.serial: frame.value(load, elements[load.serial]) for load in whole}


def _ends_known(
    frame: Frame, kernel: Kernel, elements: Mapping[int, str], at: VectorIndex, scope: Scope
) -> list[str]:
    """Statements that name comparisons with the ends of rows which lead to elements beside a vector: all but
    the outermost elements know the answer, so that nothing is left of their choice."""
    paths = paths_of(store.value for store in kernel.stores)
    beside = [load for load in paths if "{element}" in elements.get(load.serial, "")]
    conditions = {one.serial: one for load in beside for path in paths[load] for one, _ in path}
    lines = []
    for serial in sorted(conditions.keys() - scope.bound.keys()):
        end = end_of_row(conditions[serial], frame.site.program.sizes)
        if end is not None and allowed(frame, list(divisors_of(end.view))):
            frame.divisors.update(divisors_of(end.view))
            name = frame.names.new("inside")
            compared = end.text(at.text(end.view).within(11), scope.text(end.bound).code)
            lines.append(f"const bool {name} = {compared};")
            scope.bound[serial] = Text(name)
    return lines


def _in_rows(
    frame: Frame, rows: list[Row], lines: list[str]
) -> tuple[dict[tuple[str, View], str], list[str]]:
    """Where in a thread's rows results go, and the statements that store the rows; declares them."""
    places, after = dict[tuple[str, View], str](), list[str]()
    for row in rows:
        name, declare, store = declared(frame, row)
        lines.append(declare)
        after.append(store)
        for at, one in enumerate(row.stores):
            place = f"k * {len(row.stores)}{f' + {at}' if at else ''}"
            places[one.buffer, one.view] = f"{name}.at[{place}]"
    return places, after


def _place_in_line(frame: Frame, variable: str, view: View) -> Text | None:
    """Where an element of the vector at hand is in a line that repeats; None for other places."""
    match view.axes:
        case (Axis(stride=stays), Axis(size=size, stride=step)) if stays.is_zero and step.is_one:
            if view.offset.is_zero:
                frame.helpers.add("place_in")
                return Text(f"place_in<VEC, {frame.macros.text(size)}>({variable}, k)")
    return None


def streams_stores(frame: Frame) -> bool:
    """True where results are written past what will be read again."""
    return frame.site.schedule.stream or frame.site.schedule.stream_stores
