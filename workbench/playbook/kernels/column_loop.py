"""One walk of a team over the columns of its row.

Owns the loop and its vectors; waits.py says where loads wait between passes.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from workbench.playbook.analysis.accumulators import AccumulatorText
from workbench.playbook.analysis.co_moments import MOMENTS
from workbench.playbook.analysis.row_passes import Pass, Waiting
from workbench.playbook.ir.expr import Expr, Index, Load, Reduction, leaves
from workbench.playbook.ir.program import Store
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import Axis, View
from workbench.playbook.kernels.guarded_loads import Guarded, behind, guarded_loads, wanted_together
from workbench.playbook.kernels.in_flight import Ahead, Bounds, Fetch, Taken, loaded_ahead, names_ahead
from workbench.playbook.kernels.kernel_text import block, lookup_text
from workbench.playbook.kernels.masked_loads import seen_where
from workbench.playbook.kernels.packs import allowed
from workbench.playbook.text.cuda_text import ATOM, CTYPES, SUM, Text
from workbench.playbook.text.indexing import VectorIndex, index_text, is_unit
from workbench.playbook.text.scope import Scope, statement

_BY_VECTOR = frozenset(
    ["softmax", "logsum", "welford", "co_moments", "weighted", "distances", "divergence", "divergence_open"]
)
"""Accumulators that take a vector in at once."""

if TYPE_CHECKING:
    from workbench.playbook.kernels.row_kernel import RowKernel


class ColumnLoop:
    """The loop of one pass.

    With ``edge``, its one step for the column that a lane has beside the vectors; with ``behind``, the loop
    over the columns that registers have no room for, which every pass reads.
    """

    def __init__(
        self,
        kernel: RowKernel,
        number: int,
        row_values: dict[int, Text],
        edge: bool = False,
        behind: bool = False,
    ) -> None:
        self.kernel = kernel
        self.edge = edge
        self.behind = behind
        self.frame = kernel.frame
        self.names = kernel.frame.names.inner()
        self.number = number
        self.vector = kernel.frame.vector and not edge
        self._index = VectorIndex("col", kernel.site.schedule.width, self.names, self.frame.macros)
        self._packs: dict[int, str] = {}
        self._before: list[str] = []
        self._fetches: list[Fetch] = []
        self._masked: list[str] = []
        self._after: list[str] = []
        self._at_once: list[str] = []
        self._all_taken: list[str] = []
        self._names: Ahead | None = None
        self._ahead: list[str] = []
        self._turning: list[str] = []
        self._turned: list[str] = []
        self.meanwhile: list[str] = []
        """What can be asked for before a last step; it is left here where the walk has no such place."""
        self.asked: list[str] = []
        """Of an edge: what has its loads on their way before the walk; the step itself can come behind it."""
        self._slots = {
            wait.before(number).serial: name
            for wait, name in kernel.waits.entries
            if number > wait.first and not behind
        }
        self._scope = Scope(
            self._leaf, self.names, self.frame.macros, kernel.site.schedule.fast_math, row_values
        )
        for serial, name in self._slots.items():
            self._scope.bound[serial] = Text(self._slot(name))
        for load, name in kernel.early if number else ():
            self._scope.bound[load.serial] = self.frame.value(load, f"{name}[i].at[k]")

    def text(self, step: Pass, accumulators: list[AccumulatorText]) -> list[str]:
        """The whole loop."""
        roots = step.roots
        if self.vector:
            if self.kernel.peeling is None:
                self.frame.divisors.add(self.kernel.space.columns)
            self._load_packs(roots)
            self._load_guarded(roots)
        self._load_turned(roots)
        if self.edge and self.kernel.waits.in_registers:
            self._ask_beside(roots)
        if not self.behind:
            self._keep_loads()
            self._keep_replacements()
        self._scope.prepare(roots)
        column = "col + k" if self.vector else "col"
        for text in accumulators:
            self._enter(text, column)
        for store in step.stores:
            self._store(store)
        if self.vector and self.kernel.waits.cache == "shared":
            self._pass_shared()
        return self._loop()

    def _enter(self, text: AccumulatorText, column: str) -> None:
        """Take a column in; some take a whole vector, unless each element has a chain of its own."""
        kind = text.accumulator.kind
        operands = [self._scope.text(operand) for operand in text.accumulator.operands]
        if kind.startswith("arg") and self.kernel.in_order:
            self._scope.lines.append(text.enter_next(operands[0], column))
            return
        if not self.vector or kind not in _BY_VECTOR or text.name.endswith("]"):
            self._scope.lines.append(text.enter(operands[0], column, *operands[1:]))
            return
        ahead = None if kind in MOMENTS else self._group
        arrays = [self.names.new(stem) for stem in ("values", "others")[: len(operands)]]
        many, each = (f"[{ahead.items}]", "[i]") if ahead else ("", "")
        for value, array in zip(operands, arrays, strict=True):
            self._scope.lines += statement(f"{array}{each}[k] = {value.code};")
        helper, line = text.enter_vectors(arrays, ahead.there if ahead else "")
        self.frame.helpers.add(helper)
        (self._at_once if ahead else self._before).extend(f"float {array}{many}[VEC];" for array in arrays)
        (self._all_taken if ahead else self._after).append(line)

    def _pass_shared(self) -> None:
        """The row in shared memory moves in vectors too: element by element a warp's threads would get in
        each other's way, four of them at the same bank."""
        waits = self.kernel.waits
        fetched, left = [], []
        for wait, name in waits.entries:
            slot = waits.slot(name)
            if not any(slot in line for line in (*self._scope.lines, *self._after)):
                continue
            if self.number > wait.first:
                fetched.append(f"auto {name}_here = load<VEC>({waits.place(name)});")
                self.frame.helpers.add("load")
            else:
                fetched.append(f"Pack<float, VEC> {name}_here;")
            if any(f"{slot} = " in line for line in self._scope.lines):
                left.append(f"store({waits.place(name)}, {name}_here);")
                self.frame.helpers.add("store")
        self._before += fetched
        self._after = [*left, *self._after]

    # -------------------------------------------------------------------------------- frame of the loop

    def _loop(self) -> list[str]:
        body = self._scope.lines
        if self.vector:
            body = [
                *self._masked,
                *([] if self._ahead_of_use else (fetch.line for fetch in self._fetches)),
                *self._before,
                "#pragma unroll",
                *block("for (int k = 0; k < VEC; ++k)", self._index.named(body, "int")),
                *self._after,
            ]
        if self.edge:
            return self._one_step(body)
        team, columns = self.kernel.team, self.frame.macros.text(self.kernel.space.columns)
        begin, end = ("first", "last") if self.kernel.peeling else (self.kernel.begin, self.kernel.end)
        if (self.kernel.waits.in_registers and not self.behind) or self._turned:
            return self._unrolled(body, begin, end or columns)
        lane = f"(KEPT * {team.lanes} + {team.lane})" if self.behind else team.lane
        start = lane if not self.vector or lane == "0" else f"{lane} * VEC"
        step = " * ".join(
            part for part in (team.lanes, "VEC" if self.vector else "") if part not in ("", "1")
        )
        if ahead := self._group:
            self.frame.helpers.add("pack")
            taken = Taken(self._fetches, self._at_once, body, self._all_taken)
            bounds = Bounds(begin, end or columns, start)
            meanwhile, self.meanwhile = self.meanwhile, []
            lines = loaded_ahead(taken, bounds, ahead, meanwhile)
            return [*ahead.constants(step, columns, len(self._fetches)), *lines]
        if begin:
            start = begin if start == "0" else f"{begin} + {start}"
        items = self.kernel.site.schedule.items
        advance = f"col += {step}" if step else "++col"
        unroll = [f"#pragma unroll {items}"] if items > 1 else []
        unroll = [self.kernel.unrolled] if self.kernel.unrolled else unroll
        before, behind = self._around_step()
        body = [*before, *body, *behind]
        return [*unroll, *block(f"for (int col = {start}; col < {end or columns}; {advance})", body)]

    def _around_step(self) -> tuple[list[str], list[str]]:
        """What the copies of the next row need before and behind a step."""
        is_last = self.number == len(self.kernel.passes) - 1
        return self.kernel.next_row.around_step(self.number, is_last)

    def _one_step(self, body: list[str]) -> list[str]:
        """The column that this lane has beside the vectors, if it has one."""
        if any(re.search(r"\bcol\b", line) for line in body):
            body = ["const int col = edge;", *body]
        return block("if (has_edge)", body) if body else []

    def _unrolled(self, body: list[str], begin: str, end: str) -> list[str]:
        team = self.kernel.team
        position = "i" if team.kind == "thread" else f"i * {team.lanes} + {team.lane}"
        if self.vector:
            position = f"{position} * VEC" if position == "i" else f"({position}) * VEC"
        if begin:
            position = f"{begin} + {position}"
        inner = body if team.kind == "thread" else block(f"if ({self._inside(end)})", body)
        if any(re.search(r"\bcol\b", line) for line in inner):
            inner = [f"const int col = {position};", *inner]
        before, behind = self._around_step()
        inner = [*before, *self._turning, *inner, *self._turned, *behind]
        if not self.kernel.waits.in_registers:
            columns = self.frame.macros.text(self.kernel.space.columns)
            return block(f"for (int i = 0; i * {team.lanes} < {columns}; ++i)", inner)
        return [*self._ahead, "#pragma unroll", *block("for (int i = 0; i < KEPT; ++i)", inner)]

    def _inside(self, end: str) -> str:
        """True for a column of the row; all steps but the last need not look, and the compiler knows them."""
        peeled, columns = self.kernel.peeling is not None, self.frame.macros.text(self.kernel.space.columns)
        all_its_own = peeled or end == columns  # some lanes have no row, or the row goes on in another block
        if self.kernel.begin or not all_its_own or not self.kernel.waits.in_registers:
            return f"col < {end}"
        step = " * ".join(part for part in (self.kernel.team.lanes, "VEC" if self.vector else "") if part)
        whole = f"(i + 1) * {step} <= {columns}"
        return f"({columns} % VEC == 0 && {whole}) || col < {end}" if peeled else f"{whole} || col < {end}"

    # -------------------------------------------------------------------------------- loads

    def begun(self) -> list[str]:
        """Ask for what only later passes need; ``load_now`` and the fence keep it from being put off."""
        lines = []
        for load, name in self.kernel.early:
            row_part, column_part = self.kernel.split(load.view)
            self._use_vector(load.buffer, row_part, column_part)
            address = self._address(load.buffer, row_part, column_part, load)
            lines.append(f"{name}[i] = load_now<VEC>({address});")
        self.frame.helpers.add("load_now")
        columns = self.frame.macros.text(self.kernel.space.columns)
        comment = (
            "// Used after the sums, asked for now: behind a barrier these loads would begin when it ends."
        )
        fence = "__syncwarp();  // nothing is exchanged: no load may be moved beyond it"
        return [comment, *self._unrolled(lines, "", columns), fence]

    def _ask_beside(self, roots: list[Expr]) -> None:
        """The lane's column is not waited for before the walk: its warp would be a trip behind the others.

        Only where a thread holds its row anyway. Across a loop it costs registers: 39 instead of 32, a block
        of 512 threads fewer on each multiprocessor, and a KL divergence of 512 x 50257 took 67 us, not 61.
        """
        asked = list[str]()
        for load in self.kernel.space.column_loads(roots):
            if load.serial in self._scope.bound or load.lookups or self._hidden(roots, load):
                continue
            row_part, column_part = self.kernel.split(load.view)
            ctype, name = self.frame.element_type(load.buffer), self._kept_edge(load)
            if not name:
                name = self.frame.names.new(f"{load.buffer}_edge")
                self.asked.append(f"{ctype} {name};")
            column = index_text(column_part, "edge", self.frame.macros)
            element = f"{self.kernel.row_pointer(load.buffer, row_part)}[{column.code}]"
            streamed = self._is_last_use(load) and self.frame.has_hints(load.buffer)
            asked.append(f"{name} = __ldcs(&{element});" if streamed else f"{name} = {element};")
            self._scope.bound[load.serial] = self.frame.value(load, name)
        if asked:
            self.asked += block("if (has_edge)", asked)

    def _kept_edge(self, load: Load) -> str:
        """Where the lane keeps its column of a load, from this pass on and as it is in memory; or nothing."""
        as_it_is = CTYPES[load.dtype] == self.frame.element_type(load.buffer)
        kept = [name for wait, name in self._kept_here() if wait.load is load]
        return self._slot(kept[0]) if as_it_is and kept else ""

    def _load_packs(self, roots: list[Expr]) -> None:
        for load in self.kernel.space.column_loads(roots):
            if load.serial in self._scope.bound or self._hidden(roots, load):
                continue
            row_part, column_part = self.kernel.split(load.view)
            if not is_unit(column_part) or not self._looked_up_by_row(load):
                continue
            if self.kernel.peeling and not self.kernel.peeling.takes(row_part, column_part):
                self._load_loosely(load, row_part, column_part)
                continue
            pack = self.names.new(f"{load.buffer}_pack")
            function = "load_once" if self._is_last_use(load) else "load"
            if self.kernel.early and self.number == 0:
                function = "load_now"
            if arrived := self.kernel.next_row.pointer(load.serial):
                function, address = "load", f"{arrived} + {self.kernel.next_row.place('col')}"
            else:
                address = self._address(load.buffer, row_part, column_part, load)
            self.frame.helpers.add(function)
            ctype = self.frame.element_type(load.buffer)
            if function != "load_now" and not arrived:
                address = self._where_seen(load, address)
            self._fetches.append(Fetch(pack, ctype, f"{function}<VEC>({address})"))
            self._packs[load.serial] = f"{pack}[i].at[k]" if self._ahead_of_use else f"{pack}.at[k]"
            self._use_vector(load.buffer, row_part, column_part)

    def _load_guarded(self, roots: list[Expr]) -> None:
        """What is read under a condition: as a vector where it holds for all of that, or out of another's."""
        if self.kernel.peeling:
            return
        packed = [load for load in self.kernel.space.column_loads(roots) if load.serial in self._packs]
        able: list[tuple[Guarded, list[Size]]] = []
        for one in guarded_loads(roots):
            load = one.load
            parts = self.kernel.split(load.view)
            if load.serial in self._scope.bound or not is_unit(parts[1]) or self._hidden(roots, load):
                continue
            if near := behind(load, packed):
                self._take_from(load, *near)
            elif sizes := wanted_together(self.frame, one, parts):
                able.append((one, sizes))
        while able:
            one, sizes = able.pop(0)
            other = next((pair for pair in able if one.is_opposite(pair[0])), None)
            if other is None:
                self._load_if(one, sizes)
            else:
                able.remove(other)
                self._load_either(one, other[0], [*sizes, *other[1]])

    def _take_from(self, load: Load, other: Load, places: int) -> None:
        """Elements some places behind those of a vector: the last of them are read by themselves."""
        row_part, column_part = self.kernel.split(load.view)
        alone = f"{self.kernel.row_pointer(load.buffer, row_part)}[{self._column(column_part).code}]"
        vector = self._packs[other.serial].replace("at[k]", f"at[(k + {places}) % VEC]")
        self._packs[load.serial] = f"(k + {places} < VEC ? {vector} : {alone})"

    def _load_if(self, one: Guarded, sizes: list[Size]) -> None:
        """A vector under conditions that are one for all of it."""
        if (wanted := self._wanted(one)) is not None:
            self.frame.helpers.add("load_if")
            address = self._address(one.load.buffer, *self.kernel.split(one.load.view), one.load)
            self._fetch_guarded(one.load.buffer, f"load_if<VEC>({wanted}, {address})", sizes, one)

    def _load_either(self, one: Guarded, other: Guarded, sizes: list[Size]) -> None:
        """Two places of a tensor, of which one is meant: one load, so that no lane waits for others."""
        if (wanted := self._wanted(one)) is not None:
            loads = [guarded.load for guarded in (one, other)]
            yes, no = (self._address(load.buffer, *self.kernel.split(load.view), load) for load in loads)
            at = " + col"
            if yes.endswith(at) and no.endswith(at):
                place = f"({wanted} ? {yes.removesuffix(at)} : {no.removesuffix(at)}){at}"
            else:
                place = f"{wanted} ? {yes} : {no}"
            self.frame.helpers.add("load")
            self._fetch_guarded(one.load.buffer, f"load<VEC>({place})", sizes, one, other)

    def _wanted(self, one: Guarded) -> str | None:
        """Whether a vector is wanted at all; None where that takes statements of its own."""
        scope = Scope(partial(self._position, column="col"), self.names, self.frame.macros, False)
        tests = []
        for condition, way in one.path:
            test = scope.text(condition)
            tests.append(test.within(6) if way else f"!{test.within(ATOM)}")
            if condition.serial not in self._scope.bound and not scope.lines:
                name = self.names.new("wanted")
                self._before.append(f"const bool {name} = {test.code};  // one for the whole vector")
                self._scope.bound[condition.serial] = Text(name)
        return None if scope.lines else " && ".join(tests)

    def _fetch_guarded(self, buffer: str, value: str, sizes: list[Size], *guarded: Guarded) -> None:
        self.frame.divisors.update(sizes)
        self.frame.vectors.add(buffer)
        pack = self.names.new(f"{buffer}_pack")
        self._fetches.append(Fetch(pack, self.frame.element_type(buffer), value))
        element = f"{pack}[i].at[k]" if self._ahead_of_use else f"{pack}.at[k]"
        self._packs.update((one.load.serial, element) for one in guarded)

    def _where_seen(self, load: Load, address: str) -> str:
        """A vector's address, or that of the row's first where places tell that nothing of it is looked at.

        That one is in a cache, and without a branch all loads of a thread are still on their way together.
        """
        every = [root for step in self.kernel.passes for root in step.roots]
        seen = seen_where(self.kernel.space, every, load)
        if seen is None or self._ahead_of_use or self.kernel.peeling or not address.endswith(" + col"):
            return address  # peeled rows begin beside their border
        known = dict(self._scope.bound)
        scope = Scope(self._leaf, self.names, self.frame.macros, fast=False, bound=known)
        condition = scope.text(seen.condition)
        hidden = self.names.new(f"{load.buffer}_hidden")
        chosen = f"!{condition.within(ATOM)}" if seen.chosen else condition.code
        lines = self._index.named([*scope.lines, f"return {chosen};"], "int")
        comment = "// With both ends hidden a vector is: the row's first, which is at hand, is read instead."
        self._masked += [comment, *block(f"const auto {hidden} = [&](int k)", lines)[:-1], "};"]
        at = f"{hidden}(0) && {hidden}(VEC - 1) ? 0 : col"
        return f"{address.removesuffix('col')}({at})"

    @property
    def _ahead_of_use(self) -> bool:
        """True where a thread's loads of several steps come before the first is used."""
        in_turn = self.vector and self.kernel.waits.cache == "reread" and not self.behind
        items, kind = self.kernel.site.schedule.items, self.kernel.team.kind
        return in_turn and (kind == "warp" or (items > 1 and kind == "block"))

    @property
    def _group(self) -> Ahead | None:
        """Several vectors that are taken together: as many as asked for, or a warp's row if it is short."""
        if self._names is None and self._ahead_of_use and self._fetches:
            self._names = names_ahead(self.frame.names, self.kernel.site.schedule.items)
        return self._names

    def _load_turned(self, roots: list[Expr]) -> None:
        """What lies along the rows of a team that reads across them comes through a tile."""
        for load in self.kernel.space.column_loads(roots):
            if load.serial in self._scope.bound or load.lookups or self._hidden(roots, load):
                continue
            if turned := self.kernel.turned_load(load):
                self._scope.bound[load.serial] = Text(turned.place)
                self._ahead += turned.ahead
                self._turning += turned.each

    def _use_vector(self, buffer: str, row_part: View, column_part: View) -> None:
        """Note what must hold of a buffer's vectors; those of peeled rows lie at borders anyway."""
        if self.kernel.peeling:
            self.frame.vectors.add(buffer)
            return
        self.frame.use_vector(buffer, column_part)
        self.frame.use_rows(row_part)

    def _load_loosely(self, load: Load, row_part: View, column_part: View) -> None:
        """What has no border where peeled rows have theirs is a vector only where rows need no peeling."""
        peeling, columns = self.kernel.peeling, self.kernel.space.columns
        assert peeling is not None
        if load.lookups or columns.number or not peeling.begins_at_borders(row_part, column_part):
            return
        pack = self.names.new(f"{load.buffer}_pack")
        function = f"load_where<{self.frame.macros.text(columns)} % VEC == 0, VEC>"
        address = self._address(load.buffer, row_part, column_part, load)
        self.frame.helpers.add("load_where")
        self._before.append(f"const auto {pack} = {function}({address});")
        self._packs[load.serial] = f"{pack}.at[k]"
        self.frame.vectors.add(load.buffer)

    def _looked_up_by_row(self, load: Load) -> bool:
        """True when every computed offset is one a row, and leaves vectors aligned."""
        strides = [stride for _, stride in load.lookups]
        if not all(index.serial in self._scope.bound for index, _ in load.lookups):
            return False
        if not strides or not allowed(self.frame, strides):
            return not strides
        self.frame.divisors.update(strides)
        return True

    def _hidden(self, roots: list[Expr], load: Load) -> bool:
        """True when what the load turned into has taken its place."""
        return not any(leaf is load for root in roots for leaf in self._open_leaves(root))

    def _open_leaves(self, root: Expr) -> list[Expr]:
        found: list[Expr] = []
        stack, seen = [root], set[int]()
        while stack:
            expr = stack.pop()
            if expr.serial in seen or expr.serial in self._scope.bound:
                continue
            seen.add(expr.serial)
            if isinstance(expr, (Load, Index)):
                found.append(expr)
            stack.extend(expr.operands)
        return found

    def _is_last_use(self, load: Load) -> bool:
        if not self.kernel.site.schedule.stream:
            return False
        later = self.kernel.passes[self.number + 1 :]
        again = any(leaf is load for step in later for root in step.roots for leaf in leaves(root))
        waits = not self.behind and any(wait.load is load for wait, _ in self.kernel.waits.entries)
        once = not load.lookups and not any(axis.stride.is_zero for axis in load.view.axes)
        return once and (waits or not again) and not self._has_neighbours(load)

    def _has_neighbours(self, load: Load) -> bool:
        """True where a line of the tensor is read again a few places further: it should stay in the cache."""
        others = self.kernel.space.column_loads(self.kernel.passes[self.number].roots, guarded=True)
        along = (load.buffer, load.view.axes)
        return len(along[1]) == 1 and any((o.buffer, o.view.axes) == along for o in others if o is not load)

    def _keep_loads(self) -> None:
        for wait, name in self._kept_here():
            self._keep(wait.load, name)

    def _kept_here(self) -> list[tuple[Waiting, str]]:
        """Loads that this pass keeps, as they are."""
        first = [(wait, name) for wait, name in self.kernel.waits.entries if wait.first == self.number]
        return [(wait, name) for wait, name in first if wait.made_in(self.number) is None]

    def _keep_replacements(self) -> None:
        for wait, name in self.kernel.waits.entries:
            if (part := wait.made_in(self.number)) is not None:
                self._keep(part, name)

    def _slot(self, name: str) -> str:
        waits = self.kernel.waits
        return waits.edges[name] if self.edge else waits.slot(name)

    def _keep(self, expr: Expr, name: str) -> None:
        slot = self._slot(name)
        if (known := self._scope.bound.get(expr.serial)) is not None and known.code == slot:
            return  # since an earlier pass
        self._scope.prepare(expr.operands)
        value = self._scope.text(expr)
        self._scope.lines.append(f"{slot} = {value.code};")
        self._scope.bound[expr.serial] = Text(slot)

    def _leaf(self, expr: Expr) -> Text:
        if isinstance(expr, Reduction):
            return self.kernel.result(expr)
        assert isinstance(expr, (Load, Index))
        if isinstance(expr, Load) and expr.serial in self._packs:
            return self.frame.value(expr, self._packs[expr.serial])
        if isinstance(expr, Index):
            return self._position(expr, "col + k" if self.vector else "col")
        row_part, column_part = self.kernel.split(expr.view)
        if arrived := self.kernel.next_row.pointer(expr.serial):
            at = self.kernel.next_row.place("col + k" if self.vector else "col")
            return self.frame.value(expr, f"{arrived}[{at}]")
        pointer = self.kernel.row_pointer(expr.buffer, row_part)
        index = lookup_text(expr, self._column(column_part), self.frame, self._scope.text)
        element = f"{pointer}[{index.code}]"
        streamed = self._is_last_use(expr) and self.frame.has_hints(expr.buffer)
        return self.frame.value(expr, f"__ldcs(&{element})" if streamed else element)

    def _position(self, expr: Expr, column: str) -> Text:
        """A place as a number: of element ``k`` of a vector, or of ``col`` itself."""
        assert isinstance(expr, Index)
        row_part, column_part = self.kernel.split(expr.view)
        row = index_text(row_part, self.kernel.row_at, self.frame.macros)
        at = (
            self._place(column_part) if column != "col" else index_text(column_part, "col", self.frame.macros)
        )
        terms = [part for part in (row, at) if part.code != "0"]
        if len(terms) < 2:
            return terms[0] if terms else Text("0")
        return Text(" + ".join(part.code for part in terms), SUM)

    def _place(self, view: View) -> Text:
        """Like ``_column``; the place in its line is found once for a vector that lies in one line."""
        match view.axes:
            case (Axis(stride=stride), Axis(size=size, stride=step)) if stride.is_zero and step.is_one:
                line = self.frame.macros.text(size)
                if self.vector and view.offset.is_zero:
                    return Text(f"({line} % VEC ? (col + k) % {line} : col % {line} + k)")
        return self._column(view)

    def _column(self, view: View) -> Text:
        if not self.vector:
            return index_text(view, "col", self.frame.macros)
        return self._index.text(view)

    def _address(self, buffer: str, row_part: View, column_part: View, load: Load | None = None) -> str:
        pointer = self.kernel.row_pointer(buffer, row_part)
        index = index_text(column_part, "col", self.frame.macros)
        if load is not None and load.lookups:
            index = lookup_text(load, index, self.frame, self._scope.text)
        return f"{pointer} + {index.within(13)}"

    # -------------------------------------------------------------------------------- stores

    def _store(self, store: Store) -> None:
        row_part, column_part = self.kernel.split(store.view)
        value = self.frame.stored(store.buffer, self._scope.text(store.value).code)
        stream = self.kernel.site.schedule.stream or self.kernel.site.schedule.stream_stores
        if self.vector and self._is_vector(row_part, column_part):
            pack = self.names.new(f"{store.buffer}_pack")
            self._before.append(f"Pack<{self.frame.element_type(store.buffer)}, VEC> {pack};")
            self._scope.lines += statement(f"{pack}.at[k] = {value};")
            function = "store_once" if stream else "store"
            self.frame.helpers.update([function, "pack"])
            self._after.append(f"{function}({self._address(store.buffer, row_part, column_part)}, {pack});")
            self._use_vector(store.buffer, row_part, column_part)
            return
        if turned := self.kernel.turned_store(store, stream):
            self._scope.lines += statement(f"{turned.place} = {self._scope.text(store.value).code};")
            self._turned += turned.each
            return
        element = f"{self.kernel.row_pointer(store.buffer, row_part)}[{self._column(column_part).code}]"
        stream = stream and self.frame.has_hints(store.buffer)
        self._scope.lines += statement(f"__stcs(&{element}, {value});" if stream else f"{element} = {value};")

    def _is_vector(self, row_part: View, column_part: View) -> bool:
        peeling = self.kernel.peeling
        return peeling.takes(row_part, column_part) if peeling else is_unit(column_part)
