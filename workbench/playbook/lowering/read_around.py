"""Values that are read at many places around each of theirs: which are worth a tensor of their own.

A sweep of a solver reads four neighbours of what the sweep before has made; made again for each, four
sweeps are 4^4 times the work, and walls, whose places copy what is beside them, make it more. Owns the
choice: in how many ways a value is looked at, each time moved a little, is counted on the op graph, and what
it is made of in its expression. Where rows can wait on the chip kept_rows.py has chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.model import Arg, OpNode
from workbench.playbook.ir.expr import Expr, Reduction, leaves, loads_below

_LEAST_WAYS, _LEAST_READ = 3, 9
_MOST_READ = 64
"""Elements that a place reads where the next step is made of all that this one is made of. Writing a value
costs what a few reads of neighbours do: two sweeps of five points, 13 elements, are one kernel."""
_SLICE = "aten.slice.Tensor"
_AS_IT_LIES = frozenset(["aten.clone.default", "aten.alias.default", "aten.constant_pad_nd.default"])


def is_read_around(
    name: str, expr: Expr, users: Callable[[str], Sequence[OpNode]], count: Callable[[str], int]
) -> bool:
    """True for a value that costs less to read around each place than to make there; ``count`` has elements
    of a result."""
    read = len(loads_below([expr]))
    if read < _LEAST_READ or any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
        return False
    ways = len(_ways(name, users, count))
    return ways >= _LEAST_WAYS and read * ways >= _MOST_READ


def _ways(
    name: str, users: Callable[[str], Sequence[OpNode]], count: Callable[[str], int]
) -> set[tuple[tuple[Arg, ...], ...]]:
    """The ways on which a value is computed with, as the slices on each that leave more than half of it: of
    smaller ones a place may be in one alone."""
    found = set[tuple[tuple[Arg, ...], ...]]()
    stack: list[tuple[str, tuple[tuple[Arg, ...], ...]]] = [(name, ())]
    while stack:
        source, way = stack.pop()
        for user in users(source):
            if user.op in _AS_IT_LIES:
                stack.append((user.name, way))
            elif user.op != _SLICE:
                found.add(way)
            elif 2 * count(user.name) > count(source):
                stack.append((user.name, (*way, user.args[1:])))
    return found
