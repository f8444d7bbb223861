"""Rows of planes that lie side by side: how a thread reads them ahead of need, and takes them in.

Owns the thread's coordinates and the statements that read elements of windows; walk_beside_kernel.py says
what is made of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from workbench.model import DTYPE_BYTES
from workbench.playbook.ir.expr import Expr, Index, Load, leaves
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.stencil import Stencil, seen_of
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import block, lookup_text
from workbench.playbook.kernels.plane_values import Beside
from workbench.playbook.kernels.plane_walks import PlaneWalk, at_row, each_row, read_ahead, several
from workbench.playbook.kernels.planes import plus, times
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, is_unit
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import Scope, statement


@dataclass
class BesideWalk(PlaneWalk, Beside):
    """The kernel being written."""

    packs: dict[int, Text] = field(default_factory=dict)
    """Vectors of what each result has of its own, by the serial of the load."""

    @property
    def side(self) -> int:
        """Results of a row."""
        return self.frame.site.schedule.side

    def seen(self, stencil: Stencil) -> int:
        """Elements of a row that the windows of the thread's results cover."""
        return seen_of(stencil.along, self.side)

    def pack(self, buffer: str) -> str:
        """The type of a vector of neighbouring planes."""
        self.frame.helpers.add("pack")
        return f"Pack<{self.frame.element_type(buffer)}, {self.vec}>"

    def is_word(self, stencil: Stencil, load: Load) -> bool:
        """True for narrow elements of neighbouring planes, which wait in registers as one word."""
        found = stencil.steps(load.view)
        narrow = DTYPE_BYTES[self.frame.site.buffer(load.buffer).dtype] == 2
        return narrow and self.frame.vector and found is not None and is_unit(found[2])

    def result_scope(self, names: Names) -> Scope:
        """Spells leaves at results ``i`` to ``i + VEC - 1``, for plane ``c`` of these."""

        def leaf(expr: Expr) -> Text:
            assert isinstance(expr, (Load, Index))
            if expr.serial in self.packs:
                return self.packs[expr.serial]
            base = self.of_plane(expr.view, "c")
            if base is None:
                base = index_text(expr.view, "(i + c)", self.frame.macros, wide=True)
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            index = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, index))

        scope = Scope(leaf, names, self.frame.macros, self.frame.site.schedule.fast_math)
        return scope


def read_rows(walk: BesideWalk) -> list[str]:
    """Where images begin, the arrays of rows, and the function that asks for those of a step."""
    return read_ahead(walk, partial(_row, walk))


def _row(walk: BesideWalk, number: int, load: Load) -> tuple[list[str], list[str]]:
    """Statements in front of the walk, and those that read the rows of one step."""
    frame, cut, stencil = walk.frame, walk.cut, walk.stencils[number]
    found = stencil.steps(load.view)
    assert found is not None
    outer, (down, along), beside = found
    height, width = (walk.size(size) for size in stencil.seen)
    array = walk.read[number, load.serial] = frame.names.new(f"{load.buffer}_next")
    rows, seen = cut.rows(stencil), walk.seen(stencil)
    start, end = (frame.names.new(f"{load.buffer}_{word}") for word in ("image", "end"))
    last = f"{times('last_y', cut.stride)}{plus((cut.last - 1) * cut.stride - cut.before + rows)}"
    word = walk.is_word(stencil, load)
    ctype = frame.element_type(load.buffer)
    waits = f"typename Word<sizeof({ctype}) * VEC>::Type" if word else walk.pack(load.buffer)
    before = [
        f"const size_t {start} = {index_text(outer, walk.image, frame.macros, wide=True).code};",
        f"const int {end} = {last} < {height} ? {last} : {height};",
        f"{waits} {array}{several(walk.ahead)}{several(rows)}[{seen}];",
    ]
    fill = f"{ctype}(0)"
    if load is stencil.source:
        fill = frame.stored(load.buffer, walk.scope().text(stencil.fill).code)
    outside = frame.names.new(f"{load.buffer}_outside")
    before += [f"{walk.pack(load.buffer)} {outside};", "#pragma unroll"]
    before += block(f"for (int c = 0; c < {walk.vec}; ++c)", [f"{outside}.at[c] = {fill};"])
    row = f"{array}{walk.slot('slot')}{'[r]' if rows > 1 else ''}[k]"
    wide = "at_y" if frame.site.schedule.narrow else "size_t(at_y)"
    places = [f"{wide} * {walk.size(down)}", _stepped("at_x", walk.size(along))]
    from_ = f"{frame.pointer(load.buffer)} + {start} + {' + '.join(places)}"
    tests = [
        "at_y >= 0",
        f"at_y < {end}",
        *(["at_x >= 0"] if stencil.along.padding else []),
        f"at_x < {width}",
    ]
    if is_unit(beside) and frame.vector:
        frame.helpers.add("load_word" if word else "load")
        frame.vectors.add(load.buffer)
        frame.divisors.update(_borders(outer, beside, (down, along)))
        at = index_text(beside, walk.plane, frame.macros, wide=True).code
        vector = [f"{row} = {'load_word' if word else 'load'}<VEC>({from_} + {at});"]
    else:
        at = index_text(beside, f"({walk.plane} + c)", frame.macros, wide=True).code
        element = f"{row}.at[c] = ({from_})[{at}];"
        vector = ["#pragma unroll", *block(f"for (int c = 0; c < {walk.vec}; ++c)", [element])]
    at_x = f"{times(walk.column, stencil.along.stride)}{plus(-stencil.along.padding)} + k"
    inner = [
        f"const int at_x = {at_x};",
        f"{row} = {f'word_of({outside})' if word else outside};",
        *block(f"if ({' && '.join(tests)})", vector),
    ]
    return before, ["#pragma unroll", *block(f"for (int k = 0; k < {seen}; ++k)", inner)]


def _stepped(code: str, by: str) -> str:
    """The text of a product with a size."""
    return code if by == "1" else f"{code} * {by}"


def _borders(outer: View, beside: View, steps: tuple[Size, ...]) -> list[Size]:
    """What the width of a vector must divide, for vectors of neighbouring planes to begin at borders."""
    axes = (*outer.axes, *beside.axes[:-1])
    found = [axis.stride for axis in axes if not axis.stride.is_zero]
    return [*found, *steps, beside.axes[-1].size, *([] if outer.offset.is_zero else [outer.offset])]


def rows_seen(walk: BesideWalk, number: int) -> tuple[list[str], list[str]]:
    """Statements that take what was read, and those that make values of plane ``c`` of it.

    Notes where the elements of windows are then.
    """
    stencil = walk.stencils[number]
    frame, cut, along = walk.frame, walk.cut, stencil.along
    rows, count = cut.rows(stencil), walk.seen(stencil)
    row = "[r]" if rows > 1 else ""
    loads = [leaf for leaf in leaves(stencil.source) if isinstance(leaf, Load)]
    name = frame.names.new(f"{loads[0].buffer}_seen")
    for serial, place in cut.places.items():
        if place.stencil is stencil:
            at = f"[{place.row}]" if rows > 1 else ""
            walk.places[serial] = Text(f"{name}{at}[{times('k', along.stride)}{plus(place.along)}]")
    here: dict[int, str] = {}
    before: list[str] = []
    for load in loads:
        array = walk.read[number, load.serial]
        here[load.serial] = frame.names.new(f"{load.buffer}_here")
        before.append(f"{walk.pack(load.buffer)} {here[load.serial]}{several(rows)}[{count}];")
        next_ = f"{array}{walk.slot('0')}{row}[k]"
        if walk.is_word(stencil, load):
            next_ = f"parts_of<{frame.element_type(load.buffer)}, VEC>({next_})"
        inner = [f"{here[load.serial]}{row}[k] = {next_};"]
        if walk.ahead > 1:
            move = f"{array}[slot - 1]{row}[k] = {array}[slot]{row}[k];"
            inner += ["#pragma unroll", *block(f"for (int slot = 1; slot < {walk.ahead}; ++slot)", [move])]
        before += each_row(rows, ["#pragma unroll", *block(f"for (int k = 0; k < {count}; ++k)", inner)])

    def leaf(expr: Expr) -> Text:
        assert isinstance(expr, Load)
        return frame.value(expr, f"{here[expr.serial]}{row}[k].at[c]")

    scope = Scope(leaf, frame.names.inner(), frame.macros, frame.site.schedule.fast_math)
    value = scope.text(stencil.source).code
    inner = [f"{name}{row}[k] = {value};"]
    if not isinstance(stencil.source, Load):
        height, width = (walk.size(size) for size in stencil.seen)
        at_x = f"{times(walk.column, along.stride)}{plus(-along.padding)} + k"
        inside = f"at_y >= 0 && at_y < {height} && at_x >= 0 && at_x < {width}"
        inner = [
            f"const int at_y = {at_row(cut)}{' + r' if row else ''};",
            f"const int at_x = {at_x};",
            *scope.lines,
        ]
        inner += statement(f"{name}{row}[k] = {inside} ? {value} : {scope.text(stencil.fill).code};")
    loop = ["#pragma unroll", *block(f"for (int k = 0; k < {count}; ++k)", inner)]
    array = f"{CTYPES[stencil.source.dtype]} {name}{several(rows)}[{count}];"
    return before, [array, *each_row(rows, loop)]
