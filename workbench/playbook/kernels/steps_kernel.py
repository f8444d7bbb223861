"""Kernels whose rows go through several steps on the chip: one read of memory, one write.

Owns the text of such a kernel; row_steps.py says which kernels it is made of, what is kept where, and how
rows lie on teams. Between two steps the threads of a team wait for one another: a block, or a warp that has
rows of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.row_steps import (
    MOST_BYTES,
    Array,
    Layout,
    arrays_of,
    has_room,
    in_row,
    layout_of,
    made_of_neighbours,
    place_in_row,
    step_of,
)
from workbench.playbook.ir.expr import Expr, Index, Load, loads_below, unguarded
from workbench.playbook.ir.program import Kernel, RowSteps, Store
from workbench.playbook.ir.sizes import ZERO, Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.flat_kernel import narrow_limits, narrowed, streams_stores, vector_body
from workbench.playbook.kernels.kernel_text import (
    KernelText,
    Limits,
    Site,
    block,
    frame_for,
    lookup_text,
)
from workbench.playbook.kernels.window_kernel import made_in_vectors
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.indexing import index_text, is_unit, name_pieces
from workbench.playbook.text.scope import Scope, statement

_WORDS = ("ABREAST", "e", "i", "row", "column", "first_row", "there", "lane", "warp", "spread")


def steps_kernel(site: Site, kernel: Kernel, name: str) -> KernelText:
    """Write the kernel of ``kernel``'s stores, with all steps before them."""
    text = _Steps(site, kernel, vector=site.schedule.width > 1).written(name)
    possible = text.width is None or text.width.is_possible
    return text if possible else _Steps(site, kernel, vector=False).written(name)


@dataclass(frozen=True)
class _Place:
    """A buffer that waits on the chip: the array it waits in, and what the step at hand calls its row."""

    array: str
    row: str
    pitch: str
    """Elements from row to row."""


class _Steps:
    def __init__(self, site: Site, kernel: Kernel, vector: bool) -> None:
        assert kernel.steps is not None
        self._site, self._kernel = site, kernel
        self._steps: RowSteps = kernel.steps
        whole = Kernel(kernel.all_stores)
        threads, cases = site.schedule.threads, site.cases
        self._warps = site.schedule.step_by_warps and has_room(site.program, kernel, threads, True, cases)
        self._layout: Layout = layout_of(site.program, kernel, threads, self._warps, site.cases[0])
        wide = vector and any(self._goes_wide(one) for one in (*self._steps.kernels, kernel))
        self._frame = frame_for(site, whole, wide)
        self._frame.on_chip = frozenset(self._steps.kept)
        for word in _WORDS:
            self._frame.names.new(word)
        self._arrays = arrays_of(site.program, kernel)
        self._places = self._named()

    def _named(self) -> dict[str, _Place]:
        frame, found = self._frame, dict[str, _Place]()
        for array in self._arrays:
            name = frame.names.new("kept")
            width, spread = frame.macros.text(array.width), self._layout.spread
            pitch = f"spread({width})" if spread else width
            for buffer in array.buffers:
                found[buffer] = _Place(name, frame.names.new(buffer), pitch)
        return found

    # -------------------------------------------------------------------------------- the whole

    def written(self, name: str) -> KernelText:
        frame, site = self._frame, self._site
        lines = self._head()
        for one in self._steps.kernels:
            lines += [*self._step(one), "__syncwarp();" if self._warps else "__syncthreads();"]
        lines += self._step(self._kernel)
        grid = f"cdiv({site.factor(self._steps.rows)}, {self._rows_a_block()})"
        if not site.schedule.narrow:
            return frame.finish(name, lines, grid, self._limits(Limits()))
        whole = Kernel([store for store in self._kernel.all_stores if store.buffer not in self._places])
        return frame.finish(name, narrowed(lines), grid, self._limits(narrow_limits(site, whole)))

    def _rows_a_block(self) -> str:
        """In the plan language."""
        layout, columns = self._layout, self._site.size(self._layout.columns)
        if columns.isdecimal():
            return str(layout.teams * -(-layout.team // int(columns)))
        each = f"cdiv({layout.team}, {columns})"
        return f"{layout.teams} * {each}" if layout.teams > 1 else each

    def _limits(self, others: Limits) -> Limits:
        """Rows of any length have to fit."""
        if all(array.width.number is not None for array in self._arrays):
            return others
        parts = []
        for array in self._arrays:
            width, size, spread = (
                self._site.factor(array.width),
                DTYPE_BYTES[array.dtype],
                self._layout.spread,
            )
            pitch = f"({width} + {width} // {spread})" if spread else width
            parts.append(f"{pitch} * {size}" if size > 1 else pitch)
        a_row = f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]
        fits = f"{a_row} * {self._rows_a_block()} <= {MOST_BYTES}"
        fits = f"{others.fits} and {fits}" if others.fits else fits
        return Limits(others.shared, fits, "rows that wait on the chip have to fit there")

    def _head(self) -> list[str]:
        """Which rows a team has, and where they wait."""
        macros = self._frame.macros
        team, whose = ("32", "warp") if self._warps else ("THREADS", "block")
        columns, rows = macros.text(self._layout.columns), macros.text(self._steps.rows)
        lines = [
            "// Rows wait on the chip from step to step: each reads what those before have left, wherever in",
            "// its row that lies. Memory is read once and written once.",
            f"constexpr int ABREAST = ({team} + {columns} - 1) / {columns};  // rows of a {whose}",
        ]
        if self._warps:
            lines += [
                "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;",
                "const size_t first_row = (size_t(blockIdx.x) * (THREADS / 32) + warp) * ABREAST;",
            ]
        else:
            lines += ["const size_t first_row = size_t(blockIdx.x) * ABREAST;"]
        if self._layout.spread:
            each = self._layout.spread
            lines += [
                f"// A place is left out behind every {each} elements: what lies a power of two apart comes",
                "// from different banks.",
                f"constexpr auto spread = [](int at) {{ return at + at / {each}; }};",
            ]
        for array in self._arrays:
            lines.append(self._declared(array))
        if self._warps:
            lines += block(f"if (first_row >= {rows})", ["return;"])
        whole = f"{rows} % ABREAST == 0 || first_row + ABREAST <= {rows}"
        return [*lines, f"const int there = {whole} ? ABREAST : int({rows} - first_row);"]

    def _declared(self, array: Array) -> str:
        name, pitch = self._places[array.buffers[0]].array, self._places[array.buffers[0]].pitch
        ctype = CTYPES[self._site.buffer(array.buffers[0]).dtype]
        vectors = self._frame.vector and not self._layout.spread
        aligned = f"__align__(sizeof({ctype}) * VEC) " if vectors else ""
        teams = "[THREADS / 32]" if self._warps else ""
        return f"__shared__ {aligned}{ctype} {name}{teams}[ABREAST * {pitch}];"

    # -------------------------------------------------------------------------------- one step

    def _goes_wide(self, kernel: Kernel) -> bool:
        """True for a step that makes its rows in vectors: of neighbours in memory, or of those that wait."""
        if not self._layout.spread:
            return made_of_neighbours(self._site.program, kernel, self._steps)
        kept = self._steps.kept
        loads = loads_below(store.value for store in kernel.stores)
        near = all(store.buffer in kept and store.view.is_linear for store in kernel.stores)
        plain = {part.serial for part in unguarded(*(store.value for store in kernel.stores))}
        return near and all(
            load.buffer not in kept and is_unit(load.view) and load.serial in plain for load in loads
        )

    def _step(self, kernel: Kernel) -> list[str]:
        """The loop over all places of a team's rows, or over vectors of them."""
        frame = self._frame
        first, team = ("lane", "32") if self._warps else ("threadIdx.x", "THREADS")
        count = frame.macros.text(kernel.stores[0].columns // self._steps.rows)
        if frame.vector and self._goes_wide(kernel):
            frame.divisors.add(kernel.stores[0].columns // self._steps.rows)
            at, body = ("e", self._apart(kernel, count)) if self._layout.spread else ("i", self._wide(kernel))
            head = f"for (int {at} = {first} * VEC; {at} < there * {count}; {at} += {team} * VEC)"
            return block(head, body)
        body = self._elements(kernel)
        index = f"const size_t i = (first_row + row) * {count} + column;"
        needed = [index] if any(re.search(r"\bi\b", line) for line in body) else []
        return block(
            f"for (int e = {first}; e < there * {count}; e += {team})",
            [f"const int row = e / {count}, column = e % {count};", *needed, *body],
        )

    def _wide(self, kernel: Kernel) -> list[str]:
        """Statements for a vector of places, which lie in one row; index 0 is in the team's first row."""
        frame, begins, rows, steps = self._frame, dict[str, str](), list[str](), dict[str, Size]()
        views = {one.buffer: one.view for one in loads_below(store.value for store in kernel.stores)}
        for buffer, view in {**views, **{one.buffer: one.view for one in kernel.stores}}.items():
            step = step_of(view, self._steps.rows)
            assert step is not None
            if buffer in self._places:
                begins[buffer] = self._array(buffer)
            elif not step.is_zero:
                begins[buffer] = frame.names.new(f"{buffer}_rows")
                const = "" if buffer in frame.written else "const "
                begin = f"{frame.pointer(buffer)} + first_row * {frame.macros.text(step)}"
                rows.append(f"{const}{frame.element_type(buffer)}* {begins[buffer]} = {begin};")
                steps[buffer] = step
        frame.begins = begins
        lines = [re.sub(r"\bsize_t\b", "int", line) for line in vector_body(frame, kernel)]
        frame.begins = {}
        frame.divisors.update(step for buffer, step in steps.items() if buffer in frame.vectors)
        return [*rows, *lines]

    def _apart(self, kernel: Kernel, count: str) -> list[str]:
        """The same where places are left out between those of a row."""
        index = f"const size_t i = first_row * {count} + e;"
        place = f"const int row = e / {count}, column = e % {count};"
        made = made_in_vectors(self._frame, kernel, self._stored_apart)
        return [place, index, *self._rows_of(kernel), *made]

    def _stored_apart(self, buffer: str, pack: str) -> list[str]:
        put = f"{self._places[buffer].row}[spread(column + k)] = {pack}.at[k];"
        return ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", [put])]

    def _array(self, buffer: str) -> str:
        return f"{self._places[buffer].array}{'[warp]' if self._warps else ''}"

    def _elements(self, kernel: Kernel) -> list[str]:
        """Statements for one place of each row."""
        frame, fast = self._frame, self._site.schedule.fast_math
        self._outside: dict[tuple[str, Size], str] = {}
        scope = Scope(lambda part: self._leaf(scope, part), frame.names, frame.macros, fast)
        scope.prepare(store.value for store in kernel.stores)
        for store in kernel.stores:
            value = frame.stored(store.buffer, scope.text(store.value).code)
            scope.lines += self._stored(store, value)
        lines = name_pieces(scope.lines, "i", frame.names)
        inner = [re.sub(r"\bsize_t\b", "int", line) for line in name_pieces(lines, "column", frame.names)]
        return [*self._rows_of(kernel), *self._rows_outside(), *inner]

    def _rows_of(self, kernel: Kernel) -> list[str]:
        """What the step calls the rows on the chip that it reads and makes."""
        made = {store.buffer for store in kernel.stores}
        read = {load.buffer for load in loads_below(store.value for store in kernel.stores)}
        lines = []
        for buffer, place in self._places.items():
            if buffer in made | read:
                const = "" if buffer in made else "const "
                ctype = self._frame.element_type(buffer)
                lines.append(f"{const}{ctype}* {place.row} = {self._array(buffer)} + row * {place.pitch};")
        return lines

    def _rows_outside(self) -> list[str]:
        """The same of rows in memory."""
        frame, lines = self._frame, []
        for (buffer, step), name in self._outside.items():
            const = "" if buffer in frame.written else "const "
            begin = f"(first_row + row) * {frame.macros.text(step)}"
            lines.append(f"{const}{frame.element_type(buffer)}* {name} = {frame.pointer(buffer)} + {begin};")
        return lines

    def _stored(self, store: Store, value: str) -> list[str]:
        frame = self._frame
        element = self._element(store.buffer, store.view, lambda base: base)
        if store.buffer not in self._places and streams_stores(frame) and frame.has_hints(store.buffer):
            return [f"__stcs(&{element}, {value});"]
        return statement(f"{element} = {value};")

    def _leaf(self, scope: Scope, part: Expr) -> Text:
        """A load from a row on the chip, a load from memory, or a place."""
        assert isinstance(part, Load | Index)
        if isinstance(part, Load):
            looked_up = partial(lookup_text, part, frame=self._frame, leaf=scope.text)
            return self._frame.value(part, self._element(part.buffer, part.view, looked_up))
        alike = in_row(part.view, self._steps.rows, ZERO)
        base = self._at(alike) if alike is not None else self._anywhere(part.view)
        return base if part.dtype == "i32" else Text(f"static_cast<long long>({base.code})")

    def _element(self, buffer: str, view: View, found: Callable[[Text], Text]) -> str:
        """An element of a row on the chip, of one in memory, or of a tensor that has no such rows."""
        frame = self._frame
        if buffer in self._places:
            place = place_in_row(view, self._steps.rows, self._site.program.buffers[buffer])
            assert place is not None
            code = found(self._at(place)).code
            return f"{self._places[buffer].row}[{f'spread({code})' if self._layout.spread else code}]"
        step = step_of(view, self._steps.rows)
        place = None if step is None else in_row(view, self._steps.rows, step)
        if step is None or place is None:
            return frame.element(buffer, found(self._anywhere(view)))
        if step.is_zero:
            return frame.element(buffer, found(self._at(place)))
        if (buffer, step) not in self._outside:
            self._outside[buffer, step] = frame.names.new(f"{buffer}_row")
            frame.pointer(buffer)
        return f"{self._outside[buffer, step]}[{found(self._at(place)).code}]"

    def _at(self, place: View) -> Text:
        return index_text(place, "column", self._frame.macros, wide=True)

    def _anywhere(self, view: View) -> Text:
        return index_text(view, "i", self._frame.macros, wide=True)
