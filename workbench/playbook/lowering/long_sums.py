"""Values that grow from call to call, as the stream that each block of a transformer adds to.

Nobody but kernels reads such a sum, so that each would make it again from all that was ever added: behind six
blocks, from twelve tensors. Owns the choice which are stored: those of many tensors that are read before a
library call and, together with what came of it, behind it. The kernel before stores what it makes anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from workbench.model import OpNode
from workbench.playbook.ir.expr import Expr, Load, Reduction, leaves, loads_below

LEAST_READ = 3
"""Tensors as large as their sum, from which on it is stored: of two, a kernel reads as much as it would write
and read instead."""


def is_long(expr: Expr, elements: int, count: Callable[[str], int]) -> bool:
    """True for a value of ``elements`` that is made of several tensors as large; ``count`` has those of a
    buffer."""
    if isinstance(expr, Load) or any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
        return False
    read = {load.buffer for load in loads_below([expr]) if not load.lookups}
    return sum(count(buffer) >= elements for buffer in read) >= LEAST_READ


class Ancestors:
    """Which nodes of a graph lead to which; of an input, none."""

    def __init__(self, operands: Mapping[str, Collection[str]]) -> None:
        """``operands`` are the names that each node reads, every node behind those that it reads."""
        self._of: dict[str, frozenset[str]] = {}
        for name, read in operands.items():
            self._of[name] = frozenset().union({name}, *(self.of(one) for one in read))

    def of(self, name: str) -> frozenset[str]:
        """All of them, the node itself among them."""
        return self._of.get(name, frozenset([name]))

    def is_read_behind_a_call(
        self, node: OpNode, same: Collection[str], others: Collection[str], calls: Collection[str]
    ) -> bool:
        """True where ``node`` reads, in ``others``, what a call made of a value that it also reads itself.

        ``same`` are the names of that value: views of it have others.
        """
        behind = frozenset().union(*(self.of(other) for other in others)) & frozenset(calls)
        return any(not self.of(call).isdisjoint(same) for call in behind if call != node.name)
