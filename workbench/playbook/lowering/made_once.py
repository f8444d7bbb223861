"""Values that few elements hold and many are made of: which are worth a kernel of their own.

The shift of a quantiser's level is four numbers with an inverse hyperbolic tangent in each; nine million
elements add one. Angles of a rotary embedding are a line for each place, and every head of every sequence
turns by their sines. Made where they are wanted, arithmetic and not memory is what a kernel waits for. Twenty
steps of a vehicle for each of 65,536 ways to steer are one row, too long to keep on the chip: its softmax
goes along it twice, and would drive twice. Owns the choice: how many elements are made of a value is counted
on the op graph, its work in its expression. Never writes one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.model import Dim, OpNode
from workbench.playbook.analysis.arithmetic import slow_instructions
from workbench.playbook.ir.expr import Expr, Load, Reduction, leaves
from workbench.playbook.ir.operations import VIEWS
from workbench.problem.components import REDUCTIONS

_LEAST_SHARING = 64
"""Elements that are made of each."""
_LEAST_SLOW = 24.0
"""Instructions of one: as many as a copy has time for, roughly. A square root and a division are fewer."""
_LEAST_WORK = 2.0**29
"""Instructions that all elements would take: 18 us of a card of 132 multiprocessors."""
_LONG_ROW, _FEW_ROWS = 1024, 64
"""Elements of a row that few blocks would be slow to make, kept on the chip or not, and rows of them that are
too few to fill the card with a block each."""
_LEAST_AGAIN = 64.0
"""Slow instructions of an element: to make it again takes longer than to write and read four bytes."""


def is_walked_twice(
    node: OpNode, expr: Expr, users: Callable[[str], Sequence[OpNode]], count: Callable[[OpNode], int]
) -> bool:
    """True for what is much work, is reduced along a long row, and is computed with beside that reduction."""
    readers = users(node.name)
    long = [user for user in readers if user.base_name in REDUCTIONS and _is_long(node, user, count)]
    if not long or len(readers) == len(long) or isinstance(expr, Load):
        return False
    by_row = any(isinstance(leaf, Reduction) for leaf in leaves(expr))
    return not by_row and slow_instructions(expr) >= _LEAST_AGAIN


def _is_long(node: OpNode, reduction: OpNode, count: Callable[[OpNode], int]) -> bool:
    rows = count(reduction)
    return 0 < rows <= _FEW_ROWS and count(node) >= _LONG_ROW * rows


def is_worth_a_table(
    node: OpNode, expr: Expr, users: Callable[[str], Sequence[OpNode]], count: Callable[[OpNode], int]
) -> bool:
    """True for a value that costs less to write once than to make for each element that wants it; ``count``
    has elements of a result.

    One that is made of a row's statistic stays with its row, and one that all neighbours share, as the pixels
    of a channel do, is made once for a vector of them.
    """
    # What the graph tells comes first: each step of a loop has all steps before it in its expression.
    most = max((count(user) for user in _computed_with(node, users)), default=0)
    if isinstance(expr, Load) or most < _LEAST_SHARING * count(node):
        return False
    if any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
        return False
    slow = slow_instructions(expr)
    return slow >= _LEAST_SLOW and slow * most >= _LEAST_WORK


def _computed_with(node: OpNode, users: Callable[[str], Sequence[OpNode]]) -> list[OpNode]:
    """What reads a value, through views of it, and has others of it for neighbours."""
    found: list[OpNode] = []
    stack = [node]
    while stack:
        seen = stack.pop()
        for user in users(seen.name):
            if user.base_name in VIEWS:
                stack.append(user)
            elif _last(seen) not in (None, 1) and _last(seen) == _last(user):
                found.append(user)
    return found


def _last(node: OpNode) -> Dim | None:
    """The size of a result's last axis."""
    dims = node.outs[0].dims
    return dims[-1] if dims else None
