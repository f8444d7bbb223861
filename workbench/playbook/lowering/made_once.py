"""Values that few elements hold and many are made of: which are worth a kernel of their own.

The shift of a quantiser's level is four numbers with an inverse hyperbolic tangent in each; nine million
elements add one. Angles of a rotary embedding are a line for each place, and every head of every sequence
turns by their sines. Made where they are wanted, arithmetic and not memory is what a kernel waits for. Owns
the choice: how many elements are made of a value is counted on the op graph, its work in its expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.model import OpNode
from workbench.playbook.analysis.arithmetic import slow_instructions
from workbench.playbook.ir.expr import Expr, Load, Reduction, leaves

_LEAST_SHARING = 64
"""Elements that are made of each."""
_LEAST_WORK = 2.0**29
"""Instructions that all of them would take: 18 us of a card of 132 multiprocessors, were they no vectors."""
_MOVED = frozenset(
    ["view", "expand", "permute", "transpose", "slice", "select", "squeeze", "unsqueeze", "clone", "alias"]
)


def is_worth_a_table(
    name: str, expr: Expr, users: Callable[[str], Sequence[OpNode]], count: Callable[[str], int]
) -> bool:
    """True for a value that costs less to write once than to make for each element that wants it; ``count``
    has elements of a result. One that is made of a row's statistic stays with its row."""
    most = max((count(user.name) for user in _computed_with(name, users)), default=0)
    if most < _LEAST_SHARING * count(name) or slow_instructions(expr) * most < _LEAST_WORK:
        return False
    return not isinstance(expr, Load) and not any(isinstance(leaf, Reduction) for leaf in leaves(expr))


def _computed_with(name: str, users: Callable[[str], Sequence[OpNode]]) -> list[OpNode]:
    """What reads a value, through views of it."""
    found: list[OpNode] = []
    stack = [name]
    while stack:
        for user in users(stack.pop()):
            if user.base_name in _MOVED:
                stack.append(user.name)
            else:
                found.append(user)
    return found
