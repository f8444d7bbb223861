"""Which elements of a kernel without rows are loaded as vectors, and the statements that load them.

Owns the choice: neighbours in memory, a row that repeats, a row that is looked up, a piece of a
concatenation. Whatever is left is loaded element by element. Never spells an operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from workbench.playbook.analysis.shared_elements import shared_elements
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, leaves, unguarded
from workbench.playbook.ir.paths import Path, paths_of
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.beside_vectors import Loaded, beside_vectors
from workbench.playbook.kernels.copies import Copies
from workbench.playbook.kernels.kernel_text import Frame, block, lookup_text
from workbench.playbook.kernels.shared_loads import load_shared
from workbench.playbook.kernels.window_runs import load_window_runs, window_runs
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import divisors_of, index_text, is_unit, repeated_row, run_of
from workbench.playbook.text.scope import Scope

ScopeOf = Callable[[Callable[[View], Text], dict[int, str]], Scope]


@dataclass
class Packs:
    """Vectors by the serial of their load, names of conditions that hold for a whole vector, statements."""

    elements: dict[int, str] = field(default_factory=dict)
    """Element ``k`` of each; ``{element}`` in it is the element read by itself."""
    conditions: dict[int, Text] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    """Statements that load what all vectors of a thread share."""
    loaded: list[Loaded] = field(default_factory=list)
    """Vectors of neighbours, which others may lie beside."""


_ALL: Mapping[int, str] = {}


def packs_of(frame: Frame, kernel: Kernel, scope_of: ScopeOf, wanted: Mapping[int, str] = _ALL) -> Packs:
    """Load what may be loaded as vectors of the kernel's elements ``i`` to ``i + VEC - 1``.

    ``wanted`` has tests of looked-up loads, by their serials: without one, a vector is always looked up.
    """
    packs = Packs()
    head = scope_of(lambda view: index_text(view, "i", frame.macros, wide=True), {})
    roots = [store.value for store in kernel.stores]
    open_loads = _loads(unguarded(root) for root in roots)
    once = () if frame.copied is None else frame.copied.values
    for load in dict.fromkeys([*open_loads, *_loads([unguarded(*once)])]):
        if frame.copied is not None and frame.copied.shares(load):
            _declare_shared(frame, packs, load, frame.copied)
        elif load in open_loads and is_unit(load.view) and not load.lookups:
            _declare(frame, packs, load, _packed(frame, load))
    for load, sizes in looked_up_together(frame, open_loads):
        frame.divisors.update(sizes)
        frame.vectors.add(load.buffer)
        frame.helpers.add("load")
        if load.serial in wanted:
            name = _where(frame, packs, [wanted[load.serial]], load, scope_of)
            packs.elements[load.serial] = f"{name}.at[k]"
            continue
        head.prepare(place for place, _ in load.lookups)
        index = lookup_text(load, index_text(load.view, "i", frame.macros, wide=True), frame, head.text)
        packs.lines += head.lines
        head.lines = []
        _declare(frame, packs, load, f"load<VEC>({frame.pointer(load.buffer)} + {index.within(13)})")
    shared = shared_elements(roots, frame.site.schedule.width)
    able = [
        one for one in shared if one.load.serial not in packs.elements and allowed(frame, list(one.whole))
    ]
    lines, elements = load_shared(frame, able)
    packs.lines += lines
    packs.elements.update(elements)
    declared = frame.site.cases[: frame.site.declared]
    runs = window_runs([load for load in open_loads if load.serial not in packs.elements], declared)
    lines, elements = load_window_runs(frame, list(runs))
    packs.lines += lines
    packs.elements.update(elements)
    _pieces(frame, kernel, packs, head, scope_of)
    if frame.copied is None and not frame.ends_inside:
        packs.elements.update(beside_vectors(packs.loaded, paths_of(roots), packs.elements))
    return packs


def _loads(roots: Iterable[Iterable[Expr]]) -> list[Load]:
    found = {leaf.serial: leaf for root in roots for leaf in root if isinstance(leaf, Load)}
    return [found[serial] for serial in sorted(found)]


def _declare(frame: Frame, packs: Packs, load: Load, value: str) -> None:
    name = frame.names.new(f"{load.buffer}_pack")
    packs.lines.append(f"const auto {name} = {value};")
    packs.elements[load.serial] = f"{name}.at[k]"
    if repeated_row(load.view) is None and not load.lookups:
        packs.loaded.append(Loaded(load, name))


def _declare_shared(frame: Frame, packs: Packs, load: Load, copies: Copies) -> None:
    """A vector of the row that repeats, from where the thread is in the row."""
    name = frame.names.new(f"{load.buffer}_pack")
    place = f"{frame.pointer(load.buffer)} + at"
    if not copies.is_whole(load.view):
        place = address(frame, load.buffer, load.view, "first")
    packs.shared.append(f"const auto {name} = load<VEC>({place});")
    packs.elements[load.serial] = f"{name}.at[k]"
    frame.helpers.add("load")
    frame.use_vector(load.buffer, load.view)


def _packed(frame: Frame, load: Load) -> str:
    """A vector of neighbours; it may straddle the end of a row that repeats, and no other end."""
    if size := repeated_row(load.view):
        frame.helpers.add("load_repeated")
        frame.vectors.add(load.buffer)
        return f"load_repeated<VEC, {frame.macros.text(size)}>({frame.pointer(load.buffer)}, i)"
    if frame.ends_inside:
        frame.helpers.add("load_within")
        frame.vectors.add(load.buffer)
        return f"load_within<VEC, {frame.ends_inside}>({frame.pointer(load.buffer)}, i)"
    once = frame.site.schedule.stream and load.view.is_linear and load.buffer not in frame.on_chip
    function = "load_once" if once else "load"
    frame.helpers.add(function)
    frame.use_vector(load.buffer, load.view)
    return f"{function}<VEC>({address(frame, load.buffer, load.view)})"


def address(frame: Frame, buffer: str, view: View, variable: str = "i") -> str:
    """Where the vector at index ``variable`` begins."""
    index = index_text(view, variable, frame.macros, wide=True)
    pointer = frame.pointer(buffer)
    return pointer if index.code == "0" else f"{pointer} + {index.within(13)}"


def allowed(frame: Frame, sizes: list[Size]) -> bool:
    """True when every declared case lets the width divide the sizes: else all loads would lose by it."""
    site = frame.site
    declared = site.cases[: site.declared]
    width = site.schedule.width
    return bool(declared) and all(size.at(case) % width == 0 for size in sizes for case in declared)


# ------------------------------------------------------------------------------------ rows that are looked up


def looked_up_together(frame: Frame, roots: Iterable[Expr]) -> list[tuple[Load, list[Size]]]:
    """Loads among ``roots`` that are looked up a vector at a time, with what the width must divide."""
    loads = [one for one in roots if isinstance(one, Load) and one.lookups and is_unit(one.view)]
    found = [(load, together_where(load)) for load in sorted(loads, key=lambda one: one.serial)]
    return [(load, sizes) for load, sizes in found if sizes is not None and allowed(frame, sizes)]


def together_where(load: Load) -> list[Size] | None:
    """What the width must divide so that a vector of what is looked up has one index; None where no width
    makes it so."""
    found = [*divisors_of(load.view), *(stride for _, stride in load.lookups)]
    for index, _ in load.lookups:
        steady = _steady(index)
        if steady is None:
            return None
        found += steady
    return found


def _steady(expr: Expr) -> list[Size] | None:
    """What the width must divide so that an expression is the same for a whole vector."""
    match expr:
        case Const():
            return []
        case Load(lookups=(_, *_)):
            return None
        case Load(view=view) | Index(view=view):
            run = run_of(view)
            return [] if view.is_constant else None if run.is_one else [run]
    found: list[Size] = []
    for operand in expr.operands:
        steady = _steady(operand)
        if steady is None:
            return None
        found += steady
    return found


# ------------------------------------------------------------------------------------ pieces


def _pieces(frame: Frame, kernel: Kernel, packs: Packs, head: Scope, scope_of: ScopeOf) -> None:
    """Neighbours that are read only where a condition holds, which is the same for a whole vector."""
    paths = paths_of(store.value for store in kernel.stores)
    found = {load.serial: load for load in paths}
    left = {
        load.serial: next(iter(ways))
        for load, ways in paths.items()
        if len(ways) == 1 and load.serial not in packs.elements and is_unit(load.view)
    }
    while left:
        serial = next(iter(left))
        path = left.pop(serial)
        other = _opposite(found, left, found[serial], path)
        pair = [found[serial]] if other is None else [found[serial], found[other]]
        sizes = _undivided(frame, pair, path)
        if sizes is None or not allowed(frame, sizes):
            continue
        ways = [path] if other is None else [path, left.pop(other)]
        frame.divisors.update(size for size in sizes if not size.is_zero)
        frame.vectors.add(found[serial].buffer)
        frame.helpers.add("load")
        if other is None:
            tests = [_test(frame, packs, head, condition, way) for condition, way in path]
            name = _where(frame, packs, tests, found[serial], scope_of)
        else:
            name = _one_of(frame, packs, head, pair, path)
        packs.elements.update((load.serial, f"{name}.at[k]") for load in pair)
        packs.loaded += [
            Loaded(load, name, way) for load, way in zip(pair, ways, strict=True) if not load.lookups
        ]


def _opposite(found: Mapping[int, Load], left: Mapping[int, Path], load: Load, path: Path) -> int | None:
    """A load of the same buffer that is made exactly where this one is not; neither is looked up."""
    if len(path) != 1 or load.lookups:
        return None
    ((condition, way),) = path
    return next(
        (
            serial
            for serial, other in left.items()
            if found[serial].buffer == load.buffer
            and not found[serial].lookups
            and other == ((condition, not way),)
        ),
        None,
    )


def _undivided(frame: Frame, loads: list[Load], path: Path) -> list[Size] | None:
    """What the width must divide so that vectors lie in one piece; None where no width makes it so."""
    sizes: list[Size] = []
    for load in loads:
        same = together_where(load) if load.lookups else divisors_of(load.view)
        if same is None:
            return None
        sizes += same
    for condition, _ in path:
        known = decided(frame, condition)
        if known is None:
            return None
        sizes += known
    return sizes


def _one_of(frame: Frame, packs: Packs, head: Scope, pair: list[Load], path: Path) -> str:
    """Two pieces of a buffer, one of which is meant: one load, so that no lane of a warp waits for others."""
    ((condition, way),) = path
    test = _test(frame, packs, head, condition, True)
    yes, no = pair if way else reversed(pair)
    places = [index_text(load.view, "i", frame.macros, wide=True).within(4) for load in (yes, no)]
    place, name = (frame.names.new(f"{yes.buffer}_{what}") for what in ("place", "pack"))
    packs.lines.append(f"const size_t {place} = {test} ? {places[0]} : {places[1]};")
    packs.lines.append(f"const auto {name} = load<VEC>({frame.pointer(yes.buffer)} + {place});")
    return name


def _where(frame: Frame, packs: Packs, tests: list[str], load: Load, scope_of: ScopeOf) -> str:
    """A load that is made where the conditions hold, and with it what its index is looked up in."""
    name = frame.names.new(f"{load.buffer}_pack")
    packs.lines.append(f"Pack<{frame.element_type(load.buffer)}, VEC> {name};")
    inside = scope_of(lambda view: index_text(view, "i", frame.macros, wide=True), {})
    place = address(frame, load.buffer, load.view)
    if load.lookups:
        inside.prepare(found for found, _ in load.lookups)
        for found, _ in load.lookups:
            inside.name(found)
        index = lookup_text(load, index_text(load.view, "i", frame.macros, wide=True), frame, inside.text)
        place = f"{frame.pointer(load.buffer)} + {index.within(13)}"
    packs.lines += block(f"if ({' && '.join(tests)})", [*inside.lines, f"{name} = load<VEC>({place});"])
    return name


def decided(frame: Frame, condition: Expr) -> list[Size] | None:
    """What the width must divide so that a condition holds for a whole vector or for none of it."""
    match condition:
        case Apply(op="and", args=args):
            each = [decided(frame, one) for one in args]
            return (
                [size for one in each for size in one or ()] if all(one is not None for one in each) else None
            )
        case Apply(op="lt" | "ge", args=(Index(view=view), Const(value=int() | str() as bound))) if is_unit(
            view
        ):
            end = frame.site.program.sizes.read(bound)
            return [*divisors_of(view), end]
    return _steady(condition) if any(True for _ in leaves(condition)) else None


def _test(frame: Frame, packs: Packs, head: Scope, condition: Expr, way: bool) -> str:
    """A condition as a name, written when it is first needed."""
    if condition.serial not in packs.conditions:
        name = frame.names.new("in_piece")
        value = head.text(condition)
        packs.lines += head.lines
        head.lines = []
        comment = "// A vector lies in one piece: its elements are loaded together."
        packs.lines += [comment, f"const bool {name} = {value.code};"]
        packs.conditions[condition.serial] = Text(name)
    name = packs.conditions[condition.serial].code
    return name if way else f"!{name}"
