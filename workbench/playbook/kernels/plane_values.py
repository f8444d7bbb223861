"""What all results of a plane share, such as a channel's weights, for several neighbouring planes at once.

Owns the statements that read and make these values once a thread, and how a thread spells them. Elements that
neighbouring planes have side by side are read as vectors; a plane's elements that lie one behind the other,
as a window of weights does, are read together with those of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from workbench.playbook.ir.expr import Expr, Index, Load, loads_below, unguarded
from workbench.playbook.ir.sizes import number
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import block
from workbench.playbook.kernels.planes import Planes
from workbench.playbook.text.cuda_text import CTYPES, SUM, Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope, statement, stem_of

_MOST_APART = 64
"""Elements from a plane's first to the next plane's, where all of them are read."""


@dataclass
class Beside(Planes):
    """A kernel whose threads have VEC planes that lie side by side: the first is ``plane`` of ``image``."""

    image: str = field(kw_only=True)

    @property
    def vec(self) -> str:
        """Planes of a thread."""
        return "VEC" if self.frame.vector else "1"

    def of_plane(self, view: View, more: str) -> Text | None:
        """The element that plane ``plane + more`` finds; None where it differs within one."""
        parts = self.stencils[0].of_planes(view)
        if parts is None:
            return None
        outer, inner = parts
        macros = self.frame.macros
        at = f"({self.plane} + {more})" if more else self.plane
        texts = [
            index_text(part, name, macros, wide=True).code
            for part, name in ((outer, self.image), (inner, at))
        ]
        texts = [text for text in texts if text != "0"]
        return Text(" + ".join(texts) or "0", SUM)


@dataclass
class Values:
    """Statements that make what planes share, and how each part is called for plane ``c`` of a thread."""

    lines: list[str] = field(default_factory=list)
    bound: dict[int, Text] = field(default_factory=dict)


def values_of_planes(beside: Beside, roots: list[Expr]) -> Values:
    """The largest parts of the roots that all results of a plane share, as arrays with a value a plane."""
    frame = beside.frame
    parts = beside.same(roots)
    if not parts:
        return Values()
    found = Values(["// What all results of a plane share, such as its weights, is read once."])
    elements = dict[int, str]()
    if frame.vector:
        always = {one.serial for one in unguarded(*parts)}  # beyond a border nothing may be read
        for run in _runs(beside, [load for load in loads_below(parts) if load.serial in always]):
            found.lines.append(_loaded(beside, run, elements))

    def leaf(expr: Expr) -> Text:
        assert isinstance(expr, (Load, Index))
        if expr.serial in elements:
            assert isinstance(expr, Load)
            return frame.value(expr, elements[expr.serial])
        place = beside.of_plane(expr.view, "c")
        assert place is not None
        if isinstance(expr, Index):
            return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({place.code})")
        return frame.value(expr, frame.element(expr.buffer, place))

    scope = Scope(leaf, frame.names.inner(), frame.macros, frame.site.schedule.fast_math)
    each: list[str] = []
    for part in parts:
        name = frame.names.new(stem_of(part))
        value = scope.text(part).code
        each += [*scope.lines, *statement(f"{name}[c] = {value};")]
        scope.lines = []
        found.lines.append(f"{CTYPES[part.dtype]} {name}[{beside.vec}];")
        found.bound[part.serial] = Text(f"{name}[c]")
        scope.bound[part.serial] = found.bound[part.serial]
    found.lines += ["#pragma unroll", *block(f"for (int c = 0; c < {beside.vec}; ++c)", each)]
    return found


def _runs(beside: Beside, loads: Sequence[Load]) -> Iterator[tuple[Load, ...]]:
    """Loads that take turns at what neighbouring planes have, in the order of their elements."""
    free = [load for load in loads if not load.lookups and _apart(beside, load)]
    while free:
        first = free.pop(0)
        apart = _apart(beside, first)
        alike = [
            one for one in (first, *free) if (one.buffer, one.view.axes) == (first.buffer, first.view.axes)
        ]
        run = []
        for step in range(apart):
            place = first.view.offset + number(step)
            run += [one for one in alike if one.view.offset == place][:1]
        if len(run) == apart:
            free = [one for one in free if one not in run]
            yield tuple(run)


def _apart(beside: Beside, load: Load) -> int:
    """Elements between what neighbouring planes find; 0 where that is none of a few."""
    parts = beside.stencils[0].of_planes(load.view)
    if parts is None or not parts[1].axes:
        return 0
    step = parts[1].axes[-1].stride.number
    return step if step is not None and 0 < step <= _MOST_APART else 0


def _loaded(beside: Beside, run: tuple[Load, ...], elements: dict[int, str]) -> str:
    """The statement that reads such a run; notes where its elements are."""
    frame, first, apart = beside.frame, run[0], len(run)
    parts, place = beside.stencils[0].of_planes(first.view), beside.of_plane(first.view, "")
    assert parts is not None and place is not None
    outer, inner = parts
    frame.vectors.add(first.buffer)
    strides = [axis.stride for axis in (*outer.axes, *inner.axes[:-1]) if not axis.stride.is_zero]
    frame.divisors.update([inner.axes[-1].size, *strides])
    if not outer.offset.is_zero:
        frame.divisors.add(outer.offset)
    name = frame.names.new(f"{first.buffer}_{'pack' if apart == 1 else 'run'}")
    for position, load in enumerate(run):
        by = "c" if apart == 1 else f"c * {apart}"
        elements[load.serial] = f"{name}.at[{by}{f' + {position}' if position else ''}]"
    frame.helpers.add("load" if apart == 1 else "load_run")
    call = "load<VEC>" if apart == 1 else f"load_run<VEC, {apart}>"
    at = frame.pointer(first.buffer) if place.code == "0" else f"{frame.pointer(first.buffer)} + {place.code}"
    return f"const auto {name} = {call}({at});"
