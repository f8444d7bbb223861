"""How long the text of what only one branch of a choice computes would be.

Owns the count and its limit. Nothing in a branch gets a name, since it is computed where the branch is taken
and nowhere else: what several parts of it share is spelled for each of them, and a recurrence that reads its
last step twice behind a ``pad`` doubles with every step.
"""

from __future__ import annotations

from workbench.playbook.ir.expr import Apply, Expr

MOST_SPELLED = 1000
"""Operations and leaves of one branch; a value of more is written to memory before it is chosen from."""


class Branches:
    """Remembers the counts of expressions, which are made of those that were counted before."""

    def __init__(self) -> None:
        self._spelled: dict[int, int] = {}
        self._longest: dict[int, int] = {}

    def are_long(self, expr: Expr) -> bool:
        """True where a branch below the expression would be spelled in more than ``MOST_SPELLED`` parts."""
        stack = [expr]
        while stack:
            part = stack[-1]
            left = [one for one in part.operands if one.serial not in self._spelled]
            if left:
                stack += left
                continue
            self._count(stack.pop())
        return self._longest[expr.serial] > MOST_SPELLED

    def _count(self, expr: Expr) -> None:
        below = expr.operands
        self._spelled[expr.serial] = 1 + sum(self._spelled[one.serial] for one in below)
        longest = [self._longest[one.serial] for one in below]
        if isinstance(expr, Apply) and expr.op == "select":
            longest += [self._spelled[branch.serial] for branch in below[1:]]
        self._longest[expr.serial] = max(longest, default=0)
