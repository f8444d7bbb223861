"""Kernels of values that join what lies at places of a buffer, where data says at which: atomics.

Owns their text: what flat_kernel.py writes for a line of elements, but for the store. Never decides what is
such a step: that is scattered_sums.py.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from workbench.playbook.analysis.divisions import with_products, with_quotients
from workbench.playbook.ir.expr import Expr, loads_below
from workbench.playbook.ir.program import Kernel, Scatter
from workbench.playbook.kernels.flat_kernel import line_grid, line_loop, line_scope, narrow_limits, narrowed
from workbench.playbook.kernels.kernel_text import (
    Frame,
    KernelText,
    ShapedText,
    Site,
    block,
    frame_for,
    lookup_text,
)
from workbench.playbook.kernels.own_sums import MOST_PLACES, keeps_own, launched_few, with_own
from workbench.playbook.kernels.packs import Packs, allowed, packs_of, together_where
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import (
    VectorIndex,
    index_text,
    is_unit,
    name_pieces,
    once_a_vector,
)
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import Scope, statement

_COMMENT = {
    "sum": "// Each value is added where data says, in no order: memory itself adds one after the other.",
    "max": "// The largest value stays where data says, whoever comes with one at the same time.",
    "min": "// The smallest value stays where data says, whoever comes with one at the same time.",
    "put": "// Each value is put where data says; of those that come to one place any one stays, whole.",
}


def scatter_step(site: Site, scatter: Scatter, name: str, names: Names) -> KernelText | ShapedText:
    """Write the kernel of a step; two where blocks keep sums of their own and places may be too many."""
    plain = replace(site, schedule=replace(site.schedule, own_sums=False))
    if not keeps_own(site, scatter):
        return _kernel(plain, scatter, name)
    if scatter.places.number is not None:
        return launched_few(site, scatter, _kernel(site, scatter, name))
    few = launched_few(site, scatter, _kernel(site, scatter, names.new(f"{name}_by_block")))
    return ShapedText(scatter.places, MOST_PLACES, few, _kernel(plain, scatter, name))


def _kernel(site: Site, scatter: Scatter, name: str) -> KernelText:
    text = _written(site, scatter, name, site.schedule.width > 1 and _has_vectors(scatter))
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, scatter, name, False)


def _has_vectors(scatter: Scatter) -> bool:
    """True where neighbours are added, or read: values, or their indices."""
    loads = [one for one in loads_below(scatter.values) if not one.lookups]
    return any(is_unit(one.view) for one in (scatter.place, *loads))


def _written(site: Site, scatter: Scatter, name: str, vector: bool) -> KernelText:
    kernel = _divided(site, scatter.stored)
    frame = frame_for(site, kernel, vector)
    frame.need_operations(list(scatter.values))
    own = site.schedule.own_sums
    if own:
        frame.names.new("own")
        frame.site = replace(site, schedule=replace(site.schedule, persistent=True))
    body = (_vector_body if vector else _scalar_body)(frame, scatter, kernel)
    lines, grid = line_loop(frame, kernel, body), line_grid(site, kernel)
    if own:
        added = _join(frame, scatter, "own_place", "own[own_place]", in_memory=True)
        lines = with_own(site, scatter, lines[1:], added)
    lines = [*([] if own else [_COMMENT[scatter.op]]), *lines]
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    first = kernel.stores[0]
    read = Kernel([first, *(replace(first, value=index) for index in scatter.values[1:])])
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, read))


def _divided(site: Site, kernel: Kernel) -> Kernel:
    pool = site.program.pool
    kernel = with_products(pool, kernel) if site.schedule.reciprocal else kernel
    return kernel if site.schedule.fast_math else with_quotients(pool, kernel)


def _scalar_body(frame: Frame, scatter: Scatter, kernel: Kernel) -> list[str]:
    scope = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), {})
    value = kernel.stores[0].value
    scope.prepare([value, *(index for index, _ in scatter.place.lookups)])
    joining = _joining(frame, value, scope)
    index = _place(frame, scatter, scope, index_text(scatter.place.view, "i", frame.macros, wide=True))
    scope.lines.append(_join(frame, scatter, index, joining))
    return name_pieces(scope.lines, "i", frame.names)


def _vector_body(frame: Frame, scatter: Scatter, kernel: Kernel) -> list[str]:
    """A vector of values: one place for all of it where an index leads to a row, else a place each."""
    value, place = kernel.stores[0].value, scatter.place
    frame.divisors.add(scatter.columns)
    sizes = together_where(place) if is_unit(place.view) else None
    together = sizes is not None and allowed(frame, sizes)
    first = kernel.stores[0]
    apart = [] if together else [replace(first, value=index) for index in scatter.values[1:]]
    packs = packs_of(frame, Kernel([first, *apart]), partial(line_scope, frame))
    at = VectorIndex("i", frame.site.schedule.width, frame.names, frame.macros)
    inner = line_scope(frame, lambda view: at.text(view, wide=True), packs.elements)
    inner.bound.update(packs.conditions)
    inner.bound.update(_loaded(frame, packs, [value, *(store.value for store in apart)]))
    inner.prepare([value] if together else [value, *(index for index, _ in place.lookups)])
    joining = _joining(frame, value, inner)
    before, after = list[str](), list[str]()
    if together:
        assert sizes is not None
        frame.divisors.update(sizes)
        frame.vectors.add(scatter.buffer)
        row = frame.names.new("place")
        before = _row(frame, scatter, row)
        after = _join_all(frame, scatter, inner, packs.lines, (row, joining))
    else:
        index = _place(frame, scatter, inner, at.text(place.view, wide=True))
        inner.lines.append(_join(frame, scatter, index, joining))
    each = inner.lines
    for variable in at.all:
        each = name_pieces(each, variable, frame.names)
    each = at.named(once_a_vector(each), "size_t")
    loop = ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", each)]
    return [*before, *packs.shared, *packs.lines, *loop, *after]


def _joining(frame: Frame, value: Expr, scope: Scope) -> str:
    """The value that joins; a choice between two has a name, so that the statement stays short."""
    code = scope.text(value).code
    if " ? " not in code:
        return code
    name = frame.names.new("joining")
    scope.lines += statement(f"const {CTYPES[value.dtype]} {name} = {code};")
    return name


def _loaded(frame: Frame, packs: Packs, roots: list[Expr]) -> dict[int, Text]:
    """What vectors hold is there already: nothing below it needs a name."""
    loads = loads_below(roots)
    held = {one: packs.elements.get(one.serial, "{element}") for one in loads}
    return {one.serial: frame.value(one, code) for one, code in held.items() if "{element}" not in code}


def _row(frame: Frame, scatter: Scatter, name: str) -> list[str]:
    """Where the vector at hand belongs, by name."""
    head = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), {})
    head.prepare([index for index, _ in scatter.place.lookups])
    index = _place(frame, scatter, head, index_text(scatter.place.view, "i", frame.macros, wide=True))
    return name_pieces([*head.lines, f"const size_t {name} = {index};"], "i", frame.names)


def _join_all(
    frame: Frame, scatter: Scatter, inner: Scope, lines: list[str], given: tuple[str, str]
) -> list[str]:
    """Statements that join a whole vector, from its place and its values: at once where the hardware adds
    four floats in one request."""
    row, value = given
    if scatter.op != "sum" or scatter.value.dtype != "f32" or frame.site.schedule.own_sums:
        inner.lines.append(_join(frame, scatter, f"{row} + k", value))
        return []
    frame.helpers.update(["pack", "add_all"])
    pack = frame.names.new(f"{scatter.buffer}_pack")
    lines.append(f"Pack<float, VEC> {pack};")
    inner.lines.append(f"{pack}.at[k] = {value};")
    return [f"add_all({frame.pointer(scatter.buffer)} + {row}, {pack});"]


def _place(frame: Frame, scatter: Scatter, scope: Scope, base: Text) -> str:
    return lookup_text(scatter.place, base, frame, scope.text).code


def _join(frame: Frame, scatter: Scatter, index: str, value: str, in_memory: bool = False) -> str:
    """The statement that joins one value; in a block's own sums first where it keeps some."""
    dtype = scatter.value.dtype
    if scatter.op == "put":
        function = "put_at" if dtype in ("f64", "i64") else "atomicExch"
    elif scatter.op == "sum":
        function = "add_at" if dtype == "i64" else "atomicAdd"
    elif dtype in ("i32", "i64"):
        function = {"max": "atomicMax", "min": "atomicMin"}[scatter.op]
    else:
        function = {"max": "largest_at", "min": "smallest_at"}[scatter.op]
    if not function.startswith("atomic"):
        frame.helpers.add(function)
    own = frame.site.schedule.own_sums and not in_memory
    element = f"own[{index}]" if own else frame.element(scatter.buffer, Text(index))
    return f"{function}(&{element}, {value});"
