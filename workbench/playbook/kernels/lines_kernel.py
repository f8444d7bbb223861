"""A kernel whose threads are at the same place of several lines: channels of pixels, for example.

Owns the text. What all lines of a plane have in common, a weight or a mean a channel, is found once a thread
instead of once an element, and with it the divisions that tell where it lies. lines.py says when.
"""

from __future__ import annotations

from workbench.playbook.analysis.again import ALL_BACKWARDS, BACKWARDS, by_plane, goes_back
from workbench.playbook.analysis.lines import Lines
from workbench.playbook.ir.expr import Load, leaves
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.flat_kernel import line_scope, streams_stores
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for
from workbench.playbook.text.cuda_text import SUM
from workbench.playbook.text.indexing import index_text, is_unit

_EACH = "for (int k = 0; k < VEC; ++k)"


def lines_kernel(site: Site, kernel: Kernel, name: str, lines: Lines) -> KernelText:
    """Write it, with vectors where sizes allow them."""
    text = _Writer(site, kernel, lines, site.schedule.width > 1).text(name)
    if text.width is None or text.width.is_possible:
        return text
    return _Writer(site, kernel, lines, False).text(name)


class _Writer:
    """The text of one kernel while it is made."""

    def __init__(self, site: Site, kernel: Kernel, lines: Lines, vector: bool) -> None:
        self.site, self.kernel, self.lines = site, kernel, lines
        self.frame: Frame = frame_for(site, kernel, vector)
        words = ("plane", "line", "block_at")
        self.plane, self.line, self.block = (self.frame.names.new(word) for word in words)
        self.frame.helpers.add("load")
        if vector:
            self.frame.divisors.add(lines.places)
        self.elements: dict[int, str] = {}

    def text(self, name: str) -> KernelText:
        """The whole function."""
        roots = [store.value for store in self.kernel.stores]
        found = {leaf.serial: leaf for root in roots for leaf in leaves(root)}
        loads = [leaf for _, leaf in sorted(found.items()) if isinstance(leaf, Load)]
        shared = [line for load in loads if not load.view.is_linear for line in self._shared(load)]
        packs = [self._pack(load) for load in loads if load.view.is_linear]
        body = [*self._head(), *shared, *self._asked(packs), *self._made()]
        return self.frame.finish(name, body, self._grid())

    # ---------------------------------------------------------------------------- where a thread is

    def _head(self) -> list[str]:
        number, macros = self.site.schedule.lines, self.frame.macros
        places, lines = macros.text(self.lines.places), macros.text(self.lines.lines)
        back = self._backwards()
        block_at = self.block if back else "blockIdx.x"
        return [
            *([] if self.frame.vector else ["constexpr int VEC = 1;"]),
            f"// A thread is at the same place of {number} lines: what lines of a plane share is read once.",
            f"constexpr int PACKS = {places} / VEC < THREADS ? {places} / VEC : THREADS;  // of a line, here",
            "constexpr int GROUPS = THREADS / PACKS;  // lines side by side",
            f"constexpr int PIECES = ({places} + THREADS * VEC - 1) / (THREADS * VEC);  // of a line",
            f"constexpr int DOWN = ({lines} + {number} * GROUPS - 1) / ({number} * GROUPS);",
            *back,
            f"const int at = ({block_at} % PIECES * PACKS + threadIdx.x % PACKS) * VEC;",
            f"const int first = {block_at} / PIECES % DOWN * ({number} * GROUPS) + threadIdx.x / PACKS;",
            f"const int {self.plane} = {block_at} / (PIECES * DOWN);",
            *block(f"if (threadIdx.x >= GROUPS * PACKS || at >= {places})", ["return;"]),
        ]

    def _backwards(self) -> list[str]:
        """Where a block is that begins at the end of what was read before; nothing in the usual order."""
        program, planes = self.site.program, self.frame.macros.text(self.lines.planes)
        if not goes_back(program, self.site.schedule, self.kernel, in_planes=True):
            return []
        of_plane = "constexpr int BLOCKS = PIECES * DOWN;  // of a plane"
        if by_plane(program, self.kernel):
            at = f"blockIdx.x % {planes} * BLOCKS + BLOCKS - 1 - blockIdx.x / {planes}"
            return [ALL_BACKWARDS, of_plane, f"const int {self.block} = {at};"]
        last = "BLOCKS" if planes == "1" else f"BLOCKS * {planes}"
        return [BACKWARDS, of_plane, f"const int {self.block} = {last} - 1 - blockIdx.x;"]

    def _grid(self) -> str:
        schedule, site = self.site.schedule, self.site
        places, lines = site.factor(self.lines.places), site.size(self.lines.lines)
        beside = f"max(1, {schedule.threads} * {{width}} // {places})"
        grid = f"cdiv({places}, {schedule.threads} * {{width}}) * cdiv({lines}, {schedule.lines} * {beside})"
        return grid if self.lines.planes.is_one else f"{grid} * {site.factor(self.lines.planes)}"

    # ---------------------------------------------------------------------------- what is read

    def _shared(self, load: Load) -> list[str]:
        """What a thread finds once: a vector, an element for each place of it, or one for the whole plane."""
        parts = self.lines.parts(load)
        assert parts is not None
        plane, place = parts
        frame = self.frame
        pointer, kind = frame.pointer(load.buffer), frame.element_type(load.buffer)
        base = index_text(plane, self.plane, frame.macros)
        if place.is_constant:
            name = frame.names.new(f"{load.buffer}_here")
            self.elements[load.serial] = name
            return [f"const {kind} {name} = {frame.element(load.buffer, base)};"]
        if is_unit(place) and len(place.axes) == 1:
            name = frame.names.new(f"{load.buffer}_pack")
            self.elements[load.serial] = f"{name}.at[k]"
            if frame.vector:
                frame.use_vector(load.buffer, place)
                frame.use_rows(plane)
            start = "" if base.code == "0" else f" + {base.within(SUM)}"
            return [f"const auto {name} = load<VEC>({pointer}{start} + at);"]
        name = frame.names.new(f"{load.buffer}_here")
        self.elements[load.serial] = f"{name}[k]"
        where = index_text(place, "(at + k)", frame.macros)
        index = where.code if base.code == "0" else f"{base.within(SUM)} + {where.within(SUM)}"
        fill = [f"{name}[k] = {pointer}[{index}];"]
        return [f"{kind} {name}[VEC];", "#pragma unroll", *block(_EACH, fill)]

    def _pack(self, load: Load) -> tuple[str, str, str]:
        """Vectors of a thread's lines: their name, type, and what loads one."""
        frame = self.frame
        name = frame.names.new(f"{load.buffer}_pack")
        function = "load_once" if self.site.schedule.stream and frame.has_hints(load.buffer) else "load"
        frame.helpers.add(function)
        frame.vectors.add(load.buffer)
        self.elements[load.serial] = f"{name}[item].at[k]"
        return name, frame.element_type(load.buffer), f"{function}<VEC>({frame.pointer(load.buffer)} + i)"

    def _asked(self, packs: list[tuple[str, str, str]]) -> list[str]:
        """All vectors of a thread are on their way before the first is used."""
        number = self.site.schedule.lines
        body = [f"{name}[item] = {call};" for name, _, call in packs]
        return [
            *(f"Pack<{kind}, VEC> {name}[{number}];" for name, kind, _ in packs),
            *self._each_line(body),
        ]

    def _each_line(self, body: list[str]) -> list[str]:
        number, macros = self.site.schedule.lines, self.frame.macros
        places, lines = macros.text(self.lines.places), macros.text(self.lines.lines)
        start = self.line if self.lines.planes.is_one else f"(size_t({self.plane}) * {lines} + {self.line})"
        start = f"size_t({start})" if start == self.line else start
        here = [f"const size_t i = {start} * {places} + at;", *body]
        inside = f"if ({lines} % ({number} * GROUPS) == 0 || {self.line} < {lines})"
        each = [f"const int {self.line} = first + item * GROUPS;", *block(inside, here)]
        return ["#pragma unroll", *block(f"for (int item = 0; item < {number}; ++item)", each)]

    # ---------------------------------------------------------------------------- what is made

    def _made(self) -> list[str]:
        frame = self.frame
        scope = line_scope(frame, lambda view: index_text(view, "i", frame.macros, wide=True), self.elements)
        scope.prepare(store.value for store in self.kernel.stores)
        function = "store_once" if streams_stores(frame) else "store"
        frame.helpers.add(function)
        before, after = list[str](), list[str]()
        for store in self.kernel.stores:
            value = frame.stored(store.buffer, scope.text(store.value).code)
            pack = frame.names.new(f"{store.buffer}_pack")
            before.append(f"Pack<{frame.element_type(store.buffer)}, VEC> {pack};")
            scope.lines.append(f"{pack}.at[k] = {value};")
            after.append(f"{function}({frame.pointer(store.buffer)} + i, {pack});")
            frame.vectors.add(store.buffer)
        return self._each_line([*before, "#pragma unroll", *block(_EACH, scope.lines), *after])
