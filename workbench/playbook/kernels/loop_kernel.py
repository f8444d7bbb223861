"""Kernels of loops: a thread goes through the steps of a recurrence, and hands values on in registers.

Owns the loop's text: what several steps read is on its way before the first of them begins. recurrences.py
finds the loop; a thread has one index of the kernel's line, as in flat_kernel.py.
"""

from __future__ import annotations

from functools import partial

from workbench.playbook.analysis.recurrences import Carried, Recurrence
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, always_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.flat_kernel import (
    line_grid,
    line_loop,
    line_scope,
    narrow_limits,
    narrowed,
    store_elements,
)
from workbench.playbook.kernels.kernel_text import Frame, KernelText, Site, block, frame_for
from workbench.playbook.text.cuda_text import CTYPES, SUM, Text
from workbench.playbook.text.indexing import index_text, name_pieces
from workbench.playbook.text.scope import Scope, stem_of

_MOST_HELD = 96
"""Elements of steps to come that wait in registers."""


def ahead_of(found: Recurrence, wanted: int) -> int:
    """Steps whose loads are asked for at once: as many as divide the loop, if these are not far fewer."""
    loads = len(early_loads(found))
    if not loads:
        return 1
    most = max(1, min(wanted, _MOST_HELD // loads, found.steps))
    whole = [count for count in range(most // 2 + 1, most + 1) if found.steps % count == 0]
    return max(whole, default=most)


def early_loads(found: Recurrence) -> list[Load]:
    """What every step reads anew, whatever it finds."""
    return [
        expr
        for expr in found.own
        if isinstance(expr, Load) and not expr.lookups and expr.serial in found.moved
    ]


def loop_kernel(site: Site, kernel: Kernel, name: str, found: Recurrence) -> KernelText:
    """Write the kernel of a recurrence."""
    site.macros.name(kernel.stores[0].columns, "COUNT")
    frame = frame_for(site, kernel, vector=False)
    frame.least_blocks = 1
    body = name_pieces(_Writer(frame, found).lines(), "i", frame.names)
    lines, grid = line_loop(frame, kernel, body), line_grid(site, kernel)
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


class _Writer:
    """The statements of one thread."""

    def __init__(self, frame: Frame, found: Recurrence) -> None:
        self._frame = frame
        self._found = found
        self._ahead = ahead_of(found, frame.site.schedule.rolled)
        self._step = "step"
        self._held = {one.serial: frame.names.new(f"{one.buffer}_ahead") for one in early_loads(found)}
        self._outer = line_scope(frame, self._at, {})

    def lines(self) -> list[str]:
        """What comes before the loop, the loop, and what is left behind it."""
        found, outer = self._found, self._outer
        outer.prepare([store.value for store in found.before] + [one.first for one in found.carried])
        store_elements(self._frame, outer, Kernel(list(found.before)))
        self._name_what_all_steps_share()
        names = [self._declared(one) for one in found.carried]
        loop = self._loop(names)
        behind = line_scope(self._frame, self._at, {})
        behind.bound.update(outer.bound)
        behind.bound.update({serial: Text(names[number]) for serial, number in found.left.items()})
        behind.prepare([store.value for store in found.after])
        store_elements(self._frame, behind, Kernel(list(found.after)))
        return [*outer.lines, *loop, *behind.lines]

    def _at(self, view: View) -> Text:
        return index_text(view, "i", self._frame.macros, wide=True)

    def _declared(self, one: Carried) -> str:
        """A variable for what is handed on, with what the first step takes."""
        name = self._frame.names.new(stem_of(one.later if isinstance(one.later, Apply) else one.first))
        self._outer.lines.append(f"{CTYPES[one.first.dtype]} {name} = {self._outer.text(one.first).code};")
        return name

    def _name_what_all_steps_share(self) -> None:
        """Values that no step changes are read and computed once."""
        changed = {*self._found.moved, *(one.first.serial for one in self._found.carried)}
        for expr in self._found.own:
            if any(below.serial in changed for below in expr.operands):
                changed.add(expr.serial)
        inside = [expr for expr in self._found.own if expr.serial in changed]
        used = {below.serial for expr in inside for below in always_below(expr)}
        for expr in self._found.own:
            shared = expr.serial in used - changed and not isinstance(expr, Const)
            if shared and expr.serial not in self._outer.bound:
                self._outer.name(expr)

    # -------------------------------------------------------------------------------- the loop

    def _loop(self, names: list[str]) -> list[str]:
        found, ahead = self._found, self._ahead
        step = self._step_lines(names)
        if ahead == 1:
            return block(f"for (size_t step = 0; step < {found.steps}; ++step)", step)
        reads = [
            f"{name}[k] = {self._frame.element(load.buffer, self._further(load, self._at(load.view)))};"
            for load in early_loads(found)
            for name in [self._held[load.serial]]
        ]
        place = "const size_t step = first + k;"
        alike = f"// {found.steps} steps that are alike."
        return [
            f"{alike} What {ahead} of them read is on its way before these begin.",
            "#pragma unroll 1",
            *block(
                f"for (size_t first = 0; first < {found.steps}; first += {ahead})",
                [
                    *self._declarations(),
                    *self._each([place, *self._where_there(reads)]),
                    *self._each([place, *self._where_there(step)]),
                ],
            ),
        ]

    def _declarations(self) -> list[str]:
        types: dict[str, list[str]] = {}
        for load in early_loads(self._found):
            kind = self._frame.element_type(load.buffer)
            types.setdefault(kind, []).append(f"{self._held[load.serial]}[{self._ahead}]")
        return [f"{kind} {', '.join(arrays)};" for kind, arrays in types.items()]

    def _each(self, lines: list[str]) -> list[str]:
        return ["#pragma unroll", *block(f"for (int k = 0; k < {self._ahead}; ++k)", lines)]

    def _where_there(self, lines: list[str]) -> list[str]:
        if self._found.steps % self._ahead == 0:
            return lines
        return block(f"if (step < {self._found.steps})", lines)

    def _step_lines(self, names: list[str]) -> list[str]:
        """One step: what it stores, and what it hands on."""
        found = self._found
        scope = line_scope(self._frame, self._at, {}, further=self._further)
        scope.bound.update(self._outer.bound)
        handed = {one.first.serial: name for one, name in zip(found.carried, names, strict=True)}
        scope.bound.update({serial: Text(name) for serial, name in handed.items()})
        for load in early_loads(found):
            self._bind(scope, load)
        if self._is_made_in_place():
            scope.prepare([one.later for one in found.carried])
            scope.lines += self._handed_on(scope, names)
            scope.bound[found.carried[0].later.serial] = Text(names[0])
            self._store(scope)
            return scope.lines
        scope.prepare(found.values)
        self._store(scope)
        return [*scope.lines, *self._handed_on(scope, names)]

    def _bind(self, scope: Scope, load: Load) -> None:
        """An element that waits is called by its place, unless it computes in another type."""
        place = f"{self._held[load.serial]}[k]"
        value = self._frame.value(load, place)
        if value.code == place:
            scope.bound[load.serial] = value
        else:
            scope.bound[load.serial] = scope.declare(load, self._frame.names.new(stem_of(load)), value.code)

    def _is_made_in_place(self) -> bool:
        """Whether nobody wants what was handed to a step once it has made what it hands on."""
        if len(self._found.carried) > 1 or not isinstance(self._found.carried[0].later, Apply):
            return False
        one = self._found.carried[0]
        stack, seen = [store.value for store in self._found.stores], set[int]()
        while stack:
            expr = stack.pop()
            if expr is one.first:
                return False
            if expr is not one.later and expr.serial not in seen:
                seen.add(expr.serial)
                stack.extend(expr.operands)
        return True

    def _store(self, scope: Scope) -> None:
        scope.prepare([store.value for store in self._found.stores])
        for store, apart in zip(self._found.stores, self._found.apart, strict=True):
            store_elements(self._frame, scope, Kernel([store]), partial(self._place, apart))

    def _handed_on(self, scope: Scope, names: list[str]) -> list[str]:
        """Assignments; with several, all are computed before the first is made."""
        carried = self._found.carried
        before = len(scope.lines)
        for one in carried if len(carried) > 1 else ():
            if isinstance(one.later, Apply) and one.later.serial not in scope.bound:
                scope.name(one.later)
        texts = [scope.text(one.later).code for one in carried]
        computed = scope.lines[before:]
        del scope.lines[before:]
        return [*computed, *(f"{name} = {text};" for name, text in zip(names, texts, strict=True))]

    def _place(self, apart: Size, view: View) -> Text:
        return self._moved(self._at(view), apart)

    def _further(self, leaf: Expr, base: Text) -> Text:
        by = self._found.moved.get(leaf.serial)
        assert isinstance(leaf, Load | Index)
        return base if by is None else self._moved(base, by)

    def _moved(self, base: Text, by: Size) -> Text:
        """An element so much further at each step."""
        size = -by if by.is_negative else by
        term = "step" if size.is_one else f"step * {self._frame.macros.text(size)}"
        if base.code == "0" and not by.is_negative:
            return Text(term, SUM)
        return Text(f"{base.code} {'-' if by.is_negative else '+'} {term}", SUM)
