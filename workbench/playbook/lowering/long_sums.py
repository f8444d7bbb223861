"""Values that grow from call to call, as the stream that each block of a transformer adds to.

Nobody but kernels reads such a sum, so that each would make it again from all that was ever added: behind six
blocks, from twelve tensors. Owns the choice which are stored: those of many tensors that are read before a
library call and, together with what came of it, behind it. The kernel before stores what it makes anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

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


class Readers:
    """What nodes of a graph read, in the order in which they are computed."""

    def __init__(self, operands: Mapping[str, Collection[str]]) -> None:
        """``operands`` are the names that each node reads, every node behind those that it reads."""
        self._operands = operands
        self._places = {name: place for place, name in enumerate(operands)}

    def reads_behind_a_call(
        self, same: Collection[str], others: Collection[str], calls: Collection[str]
    ) -> bool:
        """True where a node that reads a value and ``others`` reads, in these, what a call made of the value.

        ``same`` are the names of the value: views of it have others. Looks at nothing before the value.
        """
        first = min(self._places.get(name, -1) for name in same)
        stack = [(name, False) for name in others]
        seen = set(stack)
        while stack:
            name, called = stack.pop()
            if called and name in same:
                return True
            called = called or name in calls
            for read in self._operands.get(name, ()):
                if self._places.get(read, -1) >= first and (read, called) not in seen:
                    seen.add((read, called))
                    stack.append((read, called))
        return False
