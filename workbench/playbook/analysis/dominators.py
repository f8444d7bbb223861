"""What every use of an expression goes through, below some roots: its dominators.

Owns that question. One walk up from the expression answers it for all that lies above: asked apart for each
of the hundreds of values of an unrolled loop, it would be a walk through the whole loop every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from workbench.playbook.ir.expr import Expr, walk_all


class Dominators:
    """Of the expressions below some roots, bodies of reductions not among them."""

    def __init__(self, roots: Sequence[Expr]) -> None:
        self._roots = {root.serial for root in roots}
        self._parts: dict[int, Expr] = {}
        self._users: dict[int, list[int]] = {}
        for part in walk_all(roots):
            self._parts[part.serial] = part
            for operand in part.operands:
                self._users.setdefault(operand.serial, []).append(part.serial)

    def of(self, expr: Expr) -> list[Expr]:
        """``expr``, and what all ways from it to the roots lead through, from below; nothing for what no root
        needs."""
        found: list[Expr] = []
        met = {expr.serial} & self._parts.keys()
        waiting = list(met)
        while waiting:
            # Operands have smaller serials than what is made of them: every way that has not ended goes
            # through one of those that wait, and where but one does, all go through it.
            serial = heappop(waiting)
            if not waiting:
                found.append(self._parts[serial])
            if serial in self._roots:
                break
            for user in self._users.get(serial, ()):
                if user not in met:
                    met.add(user)
                    heappush(waiting, user)
        return found
