"""Kernels of loops: a thread goes through the steps of a recurrence, and hands values on in registers.

Owns the loop's text: what several steps read is on its way before the first of them begins. recurrences.py
finds the loop; a thread has one index of the kernel's line, or a vector of neighbours, as in flat_kernel.py.
loop_elements.py spells what differs between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from workbench.playbook.analysis.recurrences import Carried, Recurrence
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, always_below
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import ZERO, Size
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
from workbench.playbook.kernels.loop_elements import HERE, Elements
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.cuda_text import CTYPES, SUM, Text
from workbench.playbook.text.indexing import divisors_of, is_unit, name_pieces
from workbench.playbook.text.scope import Scope, statement, stem_of

_MOST_HELD = 128
"""Registers of a thread for what steps to come will read."""


def ahead_of(found: Recurrence, schedule: Schedule, width: int) -> int:
    """Steps whose loads are asked for at once: as many as divide the loop, if these are not far fewer.

    An element of ``width`` neighbours waits in a register of its own, of 16 bits too: the compiler takes
    vectors apart early.
    """
    registers = len(early_loads(found)) * width
    if not registers:
        return 1
    most = max(1, min(schedule.rolled, _MOST_HELD // registers, found.steps))
    whole = [count for count in range(most // 2 + 1, most + 1) if found.steps % count == 0]
    return max(whole, default=most)


def makes_vectors(found: Recurrence) -> bool:
    """Whether neighbouring threads store neighbours: only then may a thread have several of them."""
    return any(is_unit(store.view) for store in (*found.stores, *found.after))


def vector_sizes(found: Recurrence) -> list[Size]:
    """What a width must divide so that all vectors of a loop begin at borders."""
    sizes: list[Size] = []
    for load in early_loads(found):
        if is_unit(load.view):
            sizes += [*divisors_of(load.view), found.moved[load.serial]]
    for store, apart in zip(found.stores, found.apart, strict=True):
        if is_unit(store.view):
            sizes += [*divisors_of(store.view), apart]
    for store in (*found.before, *found.after):
        sizes += divisors_of(store.view) if is_unit(store.view) else ()
    return [-size if size.is_negative else size for size in sizes if not size.is_zero]


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
    vector = site.schedule.width > 1 and makes_vectors(found)
    text = _written(site, kernel, name, found, vector)
    possible = text.width is None or text.width.is_possible
    return text if possible else _written(site, kernel, name, found, False)


def _written(site: Site, kernel: Kernel, name: str, found: Recurrence, vector: bool) -> KernelText:
    frame = frame_for(site, kernel, vector)
    frame.least_blocks = 1
    body = name_pieces(_Writer(frame, found).lines(), "i", frame.names)
    lines, grid = line_loop(frame, kernel, body), line_grid(site, kernel)
    if not site.schedule.narrow:
        return frame.finish(name, lines, grid)
    return frame.finish(name, narrowed(lines), grid, narrow_limits(site, kernel))


class _Writer:
    """The statements of one thread, which has an element of each step, or a vector of neighbours."""

    def __init__(self, frame: Frame, found: Recurrence) -> None:
        self._frame = frame
        self._found = found
        schedule = frame.site.schedule
        width = schedule.width if frame.vector else 1
        self._ahead = ahead_of(found, schedule, width)
        self._step = frame.names.new("step")
        self._number = frame.names.new("n")
        self._one = "[k]" if frame.vector else ""
        """Of a variable that each element has of its own."""
        self._elements = Elements(frame)
        if frame.vector:
            frame.divisors.update(vector_sizes(found))
        self._packs: dict[int, str] = {}
        self._held = {one.serial: frame.names.new(f"{one.buffer}_ahead") for one in early_loads(found)}
        self._shared: dict[int, Text] = {}

    def lines(self) -> list[str]:
        """What comes before the loop, the loop, and what is left behind it."""
        found = self._found
        before, names = self._before()
        loop = self._loop(names)
        left = {serial: Text(f"{names[number]}{self._one}") for serial, number in found.left.items()}
        behind = self._scope(left)
        behind.prepare([store.value for store in found.after])
        stored = self._stored(behind, found.after, [ZERO] * len(found.after))
        return [*before, *loop, *self._elements.block(behind.lines, stored)]

    def _scope(self, bound: Mapping[int, Text], in_loop: bool = False) -> Scope:
        """Statements for each element."""
        further = self._further if in_loop else None
        scope = line_scope(self._frame, self._elements.at, self._packs, further=further)
        scope.bound.update(self._shared)
        scope.bound.update(bound)
        return scope

    # -------------------------------------------------------------------------------- before the loop

    def _before(self) -> tuple[list[str], list[str]]:
        """The statements before the loop, and the names of what is handed on."""
        found, frame = self._found, self._frame
        shared = self._what_all_steps_share()
        firsts = [one.first for one in found.carried]
        packed: list[str] = []
        if frame.vector:
            own = [store.value for store in found.before]
            packed, self._packs = self._elements.packed([*own, *firsts, *shared], found)
        scope = self._scope({})
        scope.prepare([store.value for store in found.before] + firsts)
        stored = self._stored(scope, found.before, [ZERO] * len(found.before))
        declared: list[str] = []
        for expr in shared:
            self._share(scope, expr, declared)
        names = [self._declared(scope, one, declared) for one in found.carried]
        if not frame.vector:
            self._shared = scope.bound
        return [*packed, *declared, *self._elements.block(scope.lines, stored)], names

    def _declared(self, scope: Scope, one: Carried, declared: list[str]) -> str:
        """A variable for what is handed on, with what the first step takes."""
        name = self._frame.names.new(stem_of(one.later if isinstance(one.later, Apply) else one.first))
        self._set(scope, name, one.first, declared)
        return name

    def _set(self, scope: Scope, name: str, expr: Expr, declared: list[str]) -> None:
        value, kind = scope.text(expr).code, CTYPES[expr.dtype]
        if self._frame.vector:
            declared.append(f"{kind} {name}[VEC];")
            scope.lines.append(f"{name}[k] = {value};")
        else:
            scope.lines.append(f"{kind} {name} = {value};")

    def _share(self, scope: Scope, expr: Expr, declared: list[str]) -> None:
        """A name for a value that all steps share; an array of them where there are several elements."""
        if self._frame.vector:
            name = self._frame.names.new(stem_of(expr))
            self._set(scope, name, expr, declared)
            self._shared[expr.serial] = Text(f"{name}[k]")
        elif expr.serial not in scope.bound:
            scope.name(expr)

    def _what_all_steps_share(self) -> list[Expr]:
        """Values that no step changes: they are read and computed once."""
        changed = {*self._found.moved, *(one.first.serial for one in self._found.carried)}
        for expr in self._found.own:
            if any(below.serial in changed for below in expr.operands):
                changed.add(expr.serial)
        inside = [expr for expr in self._found.own if expr.serial in changed]
        used = {below.serial for expr in inside for below in always_below(expr)} - changed
        return [expr for expr in self._found.own if expr.serial in used and not isinstance(expr, Const)]

    # -------------------------------------------------------------------------------- the loop

    def _loop(self, names: list[str]) -> list[str]:
        found, ahead, step = self._found, self._ahead, self._step
        body = self._step_lines(names)
        if ahead == 1:
            return block(f"for (size_t {step} = 0; {step} < {found.steps}; ++{step})", body)
        place = f"const size_t {step} = first + {self._number};"
        head = f"for (size_t first = 0; first < {found.steps}; first += {ahead})"
        return [
            f"// {found.steps} steps that are alike. "
            f"What {ahead} of them read is on its way before these begin.",
            "#pragma unroll 1",
            *block(
                head,
                [
                    *self._declarations(),
                    *self._each([place, *self._where_there(self._reads())]),
                    *self._each([place, *self._where_there(body)]),
                ],
            ),
        ]

    def _reads(self) -> list[str]:
        """Statements that ask for what a step reads: vectors, and what is no vector by the element."""
        lines, alone = [], []
        for load in early_loads(self._found):
            place = f"{self._held[load.serial]}[{self._number}]"
            if self._elements.is_vector(load.view):
                index = self._moved(
                    self._elements.begin(load.view), self._found.moved[load.serial], self._step
                )
                lines.append(f"{place} = {self._elements.load(load, index)};")
            else:
                index = self._moved(self._elements.at(load.view), self._found.moved[load.serial], self._step)
                alone.append(f"{place}{self._one} = {self._frame.element(load.buffer, index)};")
        return [*lines, *self._elements.block(alone, [])]

    def _declarations(self) -> list[str]:
        types: dict[str, list[str]] = {}
        for load in early_loads(self._found):
            kind = self._frame.element_type(load.buffer)
            name = f"{self._held[load.serial]}[{self._ahead}]"
            if self._elements.is_vector(load.view):
                kind = f"Pack<{kind}, VEC>"
            elif self._frame.vector:
                name = f"{name}[VEC]"
            types.setdefault(kind, []).append(name)
        return [f"{kind} {', '.join(arrays)};" for kind, arrays in types.items()]

    def _each(self, lines: list[str]) -> list[str]:
        n = self._number
        return ["#pragma unroll", *block(f"for (int {n} = 0; {n} < {self._ahead}; ++{n})", lines)]

    def _where_there(self, lines: list[str]) -> list[str]:
        if self._found.steps % self._ahead == 0:
            return lines
        return block(f"if ({self._step} < {self._found.steps})", lines)

    def _step_lines(self, names: list[str]) -> list[str]:
        """One step: what it stores, and what it hands on."""
        found = self._found
        own = [f"{name}{self._one}" for name in names]
        handed = {one.first.serial: Text(name) for one, name in zip(found.carried, own, strict=True)}
        scope = self._scope(handed, in_loop=True)
        for load in early_loads(found):
            self._bind(scope, load)
        if self._is_made_in_place():
            scope.prepare([one.later for one in found.carried])
            scope.lines += self._handed_on(scope, own)
            scope.bound[found.carried[0].later.serial] = Text(own[0])
            stored = self._store(scope)
            return self._elements.block(scope.lines, stored)
        scope.prepare(found.values)
        stored = self._store(scope)
        return self._elements.block([*scope.lines, *self._handed_on(scope, own)], stored)

    def _bind(self, scope: Scope, load: Load) -> None:
        """An element that waits is called by its place, unless it computes in another type."""
        if self._ahead == 1:
            return
        place = f"{self._held[load.serial]}[{self._number}]"
        place += ".at[k]" if self._elements.is_vector(load.view) else self._one
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

    def _store(self, scope: Scope) -> list[str]:
        scope.prepare([store.value for store in self._found.stores])
        return self._stored(scope, self._found.stores, self._found.apart)

    def _stored(self, scope: Scope, stores: Sequence[Store], apart: Sequence[Size]) -> list[str]:
        """Writes in ``scope`` what stores an element of each, or puts it into a vector; what surrounds it
        all: declarations of the vectors, an empty line for the elements, and what stores the vectors."""
        before, after = [], []
        for store, by in zip(stores, apart, strict=True):
            if not self._elements.is_vector(store.view):
                store_elements(self._frame, scope, Kernel([store]), partial(self._place, by))
                continue
            pack, declare = self._elements.pack(store)
            before.append(declare)
            value = self._frame.stored(store.buffer, scope.text(store.value).code)
            scope.lines += statement(f"{pack}.at[k] = {value};")
            index = self._moved(self._elements.begin(store.view), by, self._step)
            after.append(self._elements.store(store, index, pack))
        return [*before, HERE, *after] if before else []

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
        return self._moved(self._elements.at(view), apart, self._step)

    def _further(self, leaf: Expr, base: Text) -> Text:
        by = self._found.moved.get(leaf.serial)
        assert isinstance(leaf, Load | Index)
        return base if by is None else self._moved(base, by, self._step)

    def _moved(self, base: Text, by: Size, step: str) -> Text:
        """An element so much further at each step."""
        if by.is_zero:
            return base
        size = -by if by.is_negative else by
        term = step if size.is_one else f"{step} * {self._frame.macros.text(size)}"
        if base.code == "0" and not by.is_negative:
            return Text(term, SUM)
        return Text(f"{base.code} {'-' if by.is_negative else '+'} {term}", SUM)
