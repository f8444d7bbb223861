"""Kernels whose threads lie on planes of results: what a whole plane shares is read once a thread.

Owns how such kernels spell what they read outside their windows. strip_kernel.py and walk_down_kernel.py
write the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.playbook.ir.expr import Apply, Expr, Index, Load, leaves, walk
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.stencil import Stencil
from workbench.playbook.kernels.kernel_text import Frame, lookup_text
from workbench.playbook.text.cuda_text import Text
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.names import Names
from workbench.playbook.text.scope import Scope


@dataclass
class Planes:
    """The kernel being written: its windows, and what the coordinates of a thread are called."""

    frame: Frame
    stencils: tuple[Stencil, ...]
    plane: str
    column: str
    """The thread's column of results, the first if it has several."""
    places: dict[int, Text] = field(default_factory=dict)
    """Elements of windows, by the serial of their expression, as the result at hand has them."""

    def size(self, size: Size) -> str:
        """A size as the kernel calls it."""
        return self.frame.macros.text(size)

    def scope(self, names: Names | None = None) -> Scope:
        """Spells leaves at index ``i``, or where the whole plane has them."""

        def leaf(expr: Expr) -> Text:
            assert isinstance(expr, (Load, Index))
            outer = self.stencils[0].of_plane(expr.view)
            macros = self.frame.macros
            base = index_text(
                *((expr.view, "i") if outer is None else (outer, self.plane)), macros, wide=True
            )
            if isinstance(expr, Index):
                return Text(f"static_cast<{'int' if expr.dtype == 'i32' else 'long long'}>({base.code})")
            index = lookup_text(expr, base, self.frame, scope.text)
            return self.frame.value(expr, self.frame.element(expr.buffer, index))

        fast = self.frame.site.schedule.fast_math
        scope = Scope(leaf, names or self.frame.names, self.frame.macros, fast)
        return scope

    def same(self, roots: list[Expr]) -> list[Expr]:
        """The largest parts that all results of a plane share, such as its weights; none behind a choice."""
        steady: dict[int, bool] = {}
        for root in roots:
            for part in walk(root):
                match part:
                    case Load(view=view, lookups=()) | Index(view=view):
                        steady[part.serial] = self.stencils[0].of_plane(view) is not None
                    case Load():
                        steady[part.serial] = False
                    case _:
                        steady[part.serial] = all(steady[operand.serial] for operand in part.operands)
        waiting, met = list(roots), set[int]()
        found: list[Expr] = []
        while waiting:
            part = waiting.pop()
            if part.serial in met or part.serial in self.places:
                continue
            met.add(part.serial)
            if not steady[part.serial]:
                chosen = isinstance(part, Apply) and part.op == "select"
                waiting += part.operands[:1] if chosen else part.operands
            elif any(True for _ in leaves(part)):
                found.append(part)
        return sorted(found, key=lambda part: part.serial)


def times(code: str, by: int) -> str:
    """The text of a product; the factor alone of 1."""
    return code if by == 1 else f"{by} * {code}"


def plus(number: int) -> str:
    """What is appended to a text to add a number to it; nothing for 0."""
    return "" if number == 0 else f" {'-' if number < 0 else '+'} {abs(number)}"
