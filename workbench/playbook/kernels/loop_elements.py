"""What a thread of a loop has of each step: one element, or a vector of neighbours.

Owns the text of vectors in loops and of the statements for each of their elements. Never knows a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from workbench.playbook.analysis.recurrences import Recurrence
from workbench.playbook.ir.expr import Expr, Load
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.flat_kernel import line_scope, streams_stores
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.kernels.packs import packs_of
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import VectorIndex, index_text, is_unit, name_pieces, once_a_vector

HERE = ""
"""In statements around those for each element: where these belong."""


class Elements:
    """One index ``i`` a thread, or ``VEC`` of them from ``i`` on; ``k`` counts these."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        self._index = self._fresh()

    def _fresh(self) -> VectorIndex:
        frame = self._frame
        return VectorIndex("i", frame.site.schedule.width, frame.names, frame.macros)

    def is_vector(self, view: View) -> bool:
        """Whether what a view finds moves as a vector."""
        return self._frame.vector and is_unit(view)

    def at(self, view: View) -> Text:
        """Where the element at hand is."""
        return self._index.text(view, wide=True) if self._frame.vector else self.begin(view)

    def begin(self, view: View) -> Text:
        """Where the thread's first element is."""
        return index_text(view, "i", self._frame.macros, wide=True)

    def packed(self, roots: Sequence[Expr], found: Recurrence) -> tuple[list[str], dict[int, str]]:
        """Statements that load as vectors what ``roots`` read at the thread's elements; how one is called."""
        store = next(iter((*found.stores, *found.after)))
        kernel = Kernel([replace(store, value=root) for root in roots])
        packs = packs_of(self._frame, kernel, partial(line_scope, self._frame))
        return [*packs.shared, *packs.lines], packs.elements

    def load(self, load: Load, index: Text) -> str:
        """The vector that begins at ``index``."""
        frame = self._frame
        function = "load_once" if frame.site.schedule.stream else "load"
        frame.helpers.add(function)
        frame.use_vector(load.buffer, load.view)
        return f"{function}<VEC>({frame.pointer(load.buffer)} + {index.within(13)})"

    def pack(self, store: Store) -> tuple[str, str]:
        """The name of a vector to be stored, and the statement that declares it."""
        frame = self._frame
        name = frame.names.new(f"{store.buffer}_pack")
        return name, f"Pack<{frame.element_type(store.buffer)}, VEC> {name};"

    def store(self, store: Store, index: Text, pack: str) -> str:
        """The statement that stores a vector from ``index`` on."""
        frame = self._frame
        function = "store_once" if streams_stores(frame) else "store"
        frame.helpers.add(function)
        frame.use_vector(store.buffer, store.view)
        return f"{function}({frame.pointer(store.buffer)} + {index.within(13)}, {pack});"

    def block(self, lines: list[str], around: list[str]) -> list[str]:
        """Statements for each element, with others before and after them."""
        if not self._frame.vector:
            return lines
        at, self._index = self._index, self._fresh()
        for variable in at.all:
            lines = lines if variable == "i" else name_pieces(lines, variable, self._frame.names)
        lines = at.named(once_a_vector(lines), "size_t")
        if not lines:
            return []
        each = ["#pragma unroll", *block("for (int k = 0; k < VEC; ++k)", lines)]
        place = around.index(HERE) if around else 0
        return [*around[:place], *each, *around[place + 1 :]]
