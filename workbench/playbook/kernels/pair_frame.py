"""A kernel of pairs of rows as it is written: its coordinates, and how values are found at them.

Owns names and indices; pair_kernel.py, pair_pieces.py and few_kernel.py write statements with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.playbook.analysis.pairs import Operand, Pairs
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Expr, Index, Load, Reduction
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import View, split
from workbench.playbook.kernels.kernel_text import Frame, lookup_text
from workbench.playbook.kernels.pair_tiling import Tiling
from workbench.playbook.text.cuda_text import SUM, Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.scope import Scope, stem_of

_WORDS = (
    *("line", "lane", "row", "col", "first_row", "first_col", "tiles", "below", "plane", "place", "slot"),
    *("at", "first", "there", "i", "j", "k", "n", "q", "r", "c"),
)
"""What a kernel of tiles calls its own."""


@dataclass
class PairNames:
    """The kernel being written, and what its values are called."""

    frame: Frame
    space: RowSpace
    pairs: Pairs
    names: dict[int, str] = field(default_factory=dict, kw_only=True)
    """Of operands: their tile, or where they wait in registers; by serial."""
    at: dict[int, str] = field(default_factory=dict, kw_only=True)
    """Coordinate of every axis."""

    def size(self, size: Size) -> str:
        return self.frame.macros.text(size)

    @property
    def down(self) -> str:
        return self.size(self.pairs.axes[self.pairs.down])

    @property
    def across(self) -> str:
        return self.size(self.pairs.axes[self.pairs.across])

    def index(self, rows: View, columns: View | None = None) -> Text:
        """The element that views over the rows, and over the columns, find at the coordinates."""
        steps = self.pairs.steps(rows)
        if steps is None:
            return index_text(rows, "i", self.frame.macros, wide=True)
        found = [(self.at[axis], step) for axis, step in enumerate(steps) if not step.is_zero]
        ahead = [self._term(name, step) for name, step in found if not step.is_negative]
        back = [self._term(name, -step) for name, step in found if step.is_negative]
        if columns is not None:
            own = index_text(columns, "k", self.frame.macros)
            ahead += [own.code] if own.code != "0" else []
        if not rows.offset.is_zero:
            offset = rows.offset
            (back if offset.is_negative else ahead).append(
                self.size(-offset if offset.is_negative else offset)
            )
        return Text(" - ".join([" + ".join(ahead) or "0", *back]), SUM)

    def _term(self, name: str, step: Size) -> str:
        return name if step.is_one else f"size_t({name}) * {self.size(step)}"

    def scope(self, bound: Mapping[int, Text], results: Mapping[int, Text] | None = None) -> Scope:
        """Statements at the coordinates; over the columns too, unless ``results`` has the reductions."""

        def leaf(expr: Expr) -> Text:
            if isinstance(expr, Reduction):
                assert results is not None
                return results[expr.key]
            assert isinstance(expr, (Load, Index))
            rows, columns = expr.view, None
            if results is None:
                rows, columns = split(expr.view, self.space.rows, self.space.columns)
            base = self.index(rows, columns)
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            code = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, code))

        fast = self.frame.site.schedule.fast_math
        scope = Scope(leaf, self.frame.names, self.frame.macros, fast, bound)
        return scope

    def row_of(self, axis: int, code: str) -> str:
        """A row of an operand: beyond the last one it is that once more, whose results nobody writes."""
        name, size = self.at[axis], self.down if axis == self.pairs.down else self.across
        return f"const int {name} = min(first_{name} + {code}, {size} - 1);"

    def is_plain(self, expr: Expr) -> bool:
        """True for elements that are kept as they are."""
        return isinstance(expr, Load) and self.frame.site.buffer(expr.buffer).dtype == expr.dtype

    def linear(self) -> str:
        """The index of a result among all rows of the kernel."""
        parts: list[str] = []
        inner = ONE
        for axis in reversed(range(len(self.pairs.axes))):
            name = self.at[axis]
            parts.insert(0, name if inner.is_one else f"size_t({name}) * {self.size(inner)}")
            inner = inner * self.pairs.axes[axis]
        return " + ".join(parts)

    def stored(self, kernel: Kernel, results: Mapping[int, Text]) -> list[str]:
        """Statements that store what is made of the reductions at the coordinates."""
        scope = self.scope({}, results)
        scope.prepare(store.value for store in kernel.stores)
        stores = []
        for store in kernel.stores:
            value = self.frame.stored(store.buffer, scope.text(store.value).code)
            stores.append(f"{self.frame.element(store.buffer, self.index(store.view))} = {value};")
        lines = [*scope.lines, *stores]
        if any(re.search(r"\bi\b", line) for line in lines):
            lines = [f"const size_t i = {self.linear()};", *lines]
        return lines

    def placed(self, others: Sequence[int], inner_blocks: str) -> list[str]:
        """Coordinates of the axes that are not paired, of which a block has one each."""
        lines = []
        inner = ONE
        for axis in reversed(others):
            name = self.at[axis] = "plane" if len(others) == 1 else self.frame.names.new(f"plane_{axis}")
            code = f"blockIdx.x / {inner_blocks}"
            code += "" if inner.is_one else f" / {self.size(inner)}"
            code += "" if axis == others[0] else f" % {self.size(self.pairs.axes[axis])}"
            lines.append(f"const int {name} = {code};")
            inner = inner * self.pairs.axes[axis]
        return lines


@dataclass
class PairFrame(PairNames):
    """A kernel of tiles, and where its threads are in them."""

    tiling: Tiling

    def __post_init__(self) -> None:
        for word in _WORDS:
            self.frame.names.new(word)

    @property
    def sides(self) -> tuple[tuple[int, str, tuple[str, str]], ...]:
        """The paired axes: how many rows of each a thread has, the loop over them, and where they are."""
        return (
            (self.pairs.down, "BELOW", ("r", "line + r * DOWN")),
            (self.pairs.across, "RIGHT", ("c", "lane + c * ACROSS")),
        )


def short_stem(operand: Operand) -> str:
    """A word for an operand."""
    return stem_of(operand.expr).removesuffix("_value")
