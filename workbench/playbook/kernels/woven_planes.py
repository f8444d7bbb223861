"""Planes woven into one another: a short innermost axis of the result whose elements lie planes apart.

An image of three channels as patches, or channels last, has its colours side by side; in memory they are a
plane apart. Taken a result at a time, each divides an index of its own, and every load is of one element.
Owns the text in which a thread reads a vector of each plane and writes what they come to as one stretch, in
whole vectors too. Tiles of shared memory (turning.py) are for axes that are longer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.ir.expr import Index, Load, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame, Limits, Site, block
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.scope import Scope, statement

Cases = Sequence[Mapping[str, int]]
ScopeOf = Callable[[Callable[[View], Text], dict[int, str]], Scope]
_MOST = 4
"""Planes at declared sizes: a thread has a vector of each in registers."""
MOST_EVER = 32
"""Planes at any size: the loops over them are written out."""


@dataclass(frozen=True)
class Woven:
    """How many planes, and the places of one: of each place every plane has one element, side by side."""

    planes: Size
    places: Size
    loads: tuple[Load, ...]
    """Those that find their elements in planes."""


def woven_planes(kernel: Kernel, schedule: Schedule, declared: Cases, cases: Cases = ()) -> Woven | None:
    """The planes of a kernel that weaves some; None where results are not written one after the other.

    Each thread has one vector of every plane: not with several, nor with a grid that stays.
    """
    if schedule.items > 1 or schedule.persistent or not all(store.view.is_linear for store in kernel.stores):
        return None
    parts = [part for store in kernel.stores for part in walk(store.value, into_reductions=True)]
    loads = [part for part in parts if isinstance(part, Load)]
    turned = next((load for load in loads if _of_planes(load.view)), None)
    if turned is None or any(isinstance(part, Index) for part in parts):
        return None
    planes, results = turned.view.axes[-1].size, kernel.stores[0].columns
    few = all(2 <= planes.at(case) <= _MOST for case in declared)
    if not declared or not few or any(planes.at(case) > MOST_EVER for case in cases):
        return None
    if turned.view.size != results or not planes.divides(results):
        return None
    found = Woven(planes, results // planes, tuple(load for load in loads if _is_woven(load, planes)))
    others = [load for load in loads if load not in found.loads]
    return found if all(_is_beside(load, planes) for load in others) else None


def _of_planes(view: View) -> bool:
    """True where results side by side find their elements apart, and every few of them in neighbours."""
    axes = view.axes
    if len(axes) < 2 or axes[-1].stride.is_zero or axes[-1].stride.is_one or axes[-1].stride.is_negative:
        return False
    return is_unit(View(axes[:-1]))


def _is_woven(load: Load, planes: Size) -> bool:
    return not load.lookups and _of_planes(load.view) and load.view.axes[-1].size == planes


def _is_beside(load: Load, planes: Size) -> bool:
    """True for what lies as the result does, is the same everywhere, or is a value of each plane."""
    if load.lookups:
        return False
    if load.view.is_linear or load.view.is_constant:
        return True
    match load.view.axes:
        case (first, last):
            return first.stride.is_zero and last.size == planes
    return False


def woven_lines(frame: Frame, kernel: Kernel, woven: Woven, scope_of: ScopeOf) -> list[str]:
    """The body: planes are read, then each result is computed where it is written."""
    planes = frame.macros.text(woven.planes)
    frame.site.macros.name(woven.places, "PLACES")
    places = frame.macros.text(woven.places)
    elements: dict[int, str] = {}
    reads: list[str] = []
    for load in _loads(kernel):
        if load in woven.loads or load.view.is_linear:
            reads += _read(frame, load, woven, elements)
    inner = scope_of(lambda view: _a_plane(frame, view), elements)
    inner.prepare(store.value for store in kernel.stores)
    made, stores = list[str](), list[str]()
    for store in kernel.stores:
        value = frame.stored(store.buffer, inner.text(store.value).code)
        pack = frame.names.new(f"{store.buffer}_pack")
        made.append(f"Pack<{frame.element_type(store.buffer)}, VEC> {pack}[{planes}];")
        inner.lines += statement(f"{pack}[k / VEC].at[k % VEC] = {value};")
        function = (
            "store_once" if frame.site.schedule.stream or frame.site.schedule.stream_stores else "store"
        )
        frame.helpers.add(function)
        frame.vectors.add(store.buffer)
        place = f"{frame.pointer(store.buffer)} + (i * {planes} + c * VEC)"
        stores += _each(planes, f"{function}({place}, {pack}[c]);")
    return [
        f"// {planes} planes, whose elements lie side by side in the result: a thread reads VEC neighbours",
        f"// of each as a vector, and writes what it has woven of them as {planes} vectors.",
        "const size_t i = (size_t(blockIdx.x) * THREADS + threadIdx.x) * VEC;",
        *block(f"if ({places} % (THREADS * VEC) != 0 && i >= {places})", ["return;"]),
        *reads,
        *made,
        "#pragma unroll",
        *block(f"for (int k = 0; k < {planes} * VEC; ++k)", inner.lines),
        *stores,
    ]


def woven_grid(site: Site, woven: Woven) -> str:
    """A vector of places a thread."""
    return f"cdiv({site.size(woven.places)}, {site.schedule.threads} * {{width}})"


def woven_limits(site: Site, woven: Woven, limits: Limits) -> Limits:
    """So many planes as loops may be written out for."""
    if woven.planes.number is not None:
        return limits
    few = f"{site.size(woven.planes)} <= {MOST_EVER}"
    both = f"{limits.fits} and {few}" if limits.fits else few
    return Limits(limits.shared, both, "a thread has a vector of each of few planes, and small indices")


def _loads(kernel: Kernel) -> list[Load]:
    found = {
        part.serial: part for store in kernel.stores for part in walk(store.value) if isinstance(part, Load)
    }
    return [found[serial] for serial in sorted(found)]


def _read(frame: Frame, load: Load, woven: Woven, elements: dict[int, str]) -> list[str]:
    """Statements that read a thread's part; ``elements`` learns where result ``k`` finds its own."""
    planes = frame.macros.text(woven.planes)
    pack = frame.names.new(f"{load.buffer}_pack")
    function = "load_once" if frame.site.schedule.stream else "load"
    frame.helpers.add(function)
    if load in woven.loads:
        first, apart = View(load.view.axes[:-1], load.view.offset), load.view.axes[-1].stride
        frame.use_vector(load.buffer, first)
        frame.divisors.add(apart)
        begin = index_text(first, "i", frame.macros, wide=True).within(SUM)
        place = f"{begin} + size_t(c) * {frame.macros.text(apart)}"
        elements[load.serial] = f"{pack}[k % {planes}].at[k / {planes}]"
    else:
        frame.vectors.add(load.buffer)
        place = f"i * {planes} + c * VEC"
        elements[load.serial] = f"{pack}[k / VEC].at[k % VEC]"
    return [
        f"Pack<{frame.element_type(load.buffer)}, VEC> {pack}[{planes}];",
        *_each(planes, f"{pack}[c] = {function}<VEC>({frame.pointer(load.buffer)} + ({place}));"),
    ]


def _each(planes: str, line: str) -> list[str]:
    return ["#pragma unroll", *block(f"for (int c = 0; c < {planes}; ++c)", [line])]


def _a_plane(frame: Frame, view: View) -> Text:
    """The element of a value of each plane, or of what is the same everywhere."""
    if view.is_constant:
        return index_text(view, "k", frame.macros)
    (plane,) = view.axes[-1:]
    return index_text(
        View((plane,), view.offset), f"(k % {frame.macros.text(plane.size)})", frame.macros, wide=True
    )
