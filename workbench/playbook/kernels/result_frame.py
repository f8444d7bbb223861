"""Results that a kernel made in place of a library call, and what it stores of them.

Owns names and indices of a result at its place; convolution_kernel.py and product_results.py have them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.pairs import steps_of_places
from workbench.playbook.ir.expr import Expr, Index, Load, loads_below
from workbench.playbook.ir.program import InPlaceOfCall
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame, lookup_text
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope, statement


@dataclass(frozen=True)
class ResultFrame:
    """The end of a kernel: a result is at hand, at a named place along every axis of the call's result."""

    frame: Frame
    made: InPlaceOfCall
    places: tuple[str, ...]
    """Names of the place of what is stored, one for each axis; "0" along an axis of one."""

    def stored(self, result: str | Callable[[Load], str], known: Mapping[int, Text] = {}) -> list[str]:
        """Statements that make of ``result``, a variable or an element, what is stored, and store it.

        Where several results are at hand, it is asked for the element of each that is loaded. Values that
        are ``known`` by their serial have been made before.
        """
        made = self.made
        loads = loads_below(store.value for store in made.stores)
        own = [load for load in loads if load.buffer == made.buffer]
        bound = {load.serial: Text(result if isinstance(result, str) else result(load)) for load in own}
        scope = self._scope({**bound, **known})
        scope.prepare(store.value for store in made.stores)
        lines = list[str]()
        for store in made.stores:
            value = self.frame.stored(store.buffer, scope.text(store.value).code)
            element = self.frame.element(store.buffer, self._index(store.view))
            lines += statement(f"{element} = {value};")
        return self._numbered([*scope.lines, *lines])

    def made_before(self, values: Sequence[Expr], told: Callable[[int, str], str]) -> list[str]:
        """Statements that make values which need no result; ``told`` writes what becomes of each."""
        scope = self._scope({})
        scope.prepare(values)
        texts = [scope.text(value).code for value in values]
        lines = [line for at, text in enumerate(texts) for line in statement(told(at, text))]
        return self._numbered([*scope.lines, *lines])

    def _numbered(self, lines: list[str]) -> list[str]:
        """The lines, behind the number of what is stored among all where they need it."""
        needed = any(re.search(r"\bi\b", line) for line in lines)
        return [f"const size_t i = {self._linear};", *lines] if needed else lines

    def _size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    @property
    def _linear(self) -> str:
        """The number of what is stored among all."""
        sizes = zip(self.places, self.made.shape_stored, strict=True)
        named = [(name, size) for name, size in sizes if name != "0"]
        code = f"size_t({named[0][0]})"
        for at, (name, size) in enumerate(named[1:]):
            code = f"{f'({code})' if at else code} * {self._size(size)} + {name}"
        return code

    def _index(self, view: View) -> Text:
        """The element that a view over the line of results finds at the place; ``i`` is the line's."""
        steps = steps_of_places(self.made.shape_stored, view)
        if steps is None:
            return index_text(view, "i", self.frame.macros, wide=True)
        terms = [
            name if step.is_one else f"size_t({name}) * {self._size(step)}"
            for name, step in zip(self.places, steps, strict=True)
            if not step.is_zero and name != "0"
        ]
        terms += [] if view.offset.is_zero else [self._size(view.offset)]
        return Text(" + ".join(terms) or "0", SUM)

    def _scope(self, bound: Mapping[int, Text]) -> Scope:
        """Statements at the place; ``bound`` has the result."""

        def leaf(expr: Expr) -> Text:
            assert isinstance(expr, (Load, Index))
            base = self._index(expr.view)
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            code = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, code))

        fast = self.frame.site.schedule.fast_math
        scope = Scope(leaf, self.frame.names, self.frame.macros, fast, bound)
        return scope
