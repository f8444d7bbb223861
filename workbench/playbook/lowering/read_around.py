"""Values that are read at many places around each of theirs: which are worth a tensor of their own.

A sweep of a solver reads four neighbours of what the sweep before has made; made again for each, four
sweeps are 4^4 times the work, and walls, whose places copy what is beside them, make it more. Owns the
choice: in how many ways a value is looked at, each time moved a little, is counted on the op graph, and what
it is made of in its expression; what is compared with the largest around it is written too. Where rows can
wait on the chip kept_rows.py has chosen before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.model import DTYPE_BYTES, Arg, OpNode
from workbench.model.aten_names import CHOOSES, COMPARED
from workbench.playbook.ir.expr import Expr, Reduction, leaves, loads_below
from workbench.playbook.ir.operations import VIEWS

_LEAST_WAYS, _LEAST_READ = 3, 9
_MOST_READ = 64
"""Elements that a place reads where the next step is made of all that this one is made of. Writing a value
costs what a few reads of neighbours do: two sweeps of five points, 13 elements, are one kernel. That is of
elements of four bytes; a lattice of spins, of one byte each, is written for a quarter of it."""
_BYTES = 4
_SLICE = "aten.slice.Tensor"
_AS_IT_LIES = frozenset(["aten.clone.default", "aten.alias.default", "aten.constant_pad_nd.default"])


def is_read_around(
    name: str, expr: Expr, users: Callable[[str], Sequence[OpNode]], count: Callable[[str], int]
) -> bool:
    """True for a value that costs less to read around each place than to make there; ``count`` has elements
    of a result."""
    # What the graph tells comes first: each step of a loop has all steps before it in its expression.
    peaks, ways = _is_measured_by_itself(name, users), len(_ways(name, users, count))
    if not peaks and ways < _LEAST_WAYS:
        return False
    read = len(loads_below([expr]))
    if peaks or read < _LEAST_READ:
        return read >= _LEAST_READ
    if any(isinstance(leaf, Reduction) for leaf in leaves(expr)):
        return False
    written = min(DTYPE_BYTES[expr.dtype], _BYTES) / _BYTES
    return read * ways >= _MOST_READ * written


def _is_measured_by_itself(name: str, users: Callable[[str], Sequence[OpNode]]) -> bool:
    """True for peaks: a value that is compared with the largest around it. Made twice, of many elements each
    time, it need not come out the same to the last bit, and no element would be the largest."""
    chosen = [
        user.name for looks in _looks(name, users) for user in users(looks) if user.base_name in CHOOSES
    ]
    met = {user.name for one in chosen for looks in _looks(one, users) for user in users(looks)}
    own = {user.name for looks in _looks(name, users) for user in users(looks) if user.base_name in COMPARED}
    return bool(own & met)


def _looks(name: str, users: Callable[[str], Sequence[OpNode]]) -> list[str]:
    """A result, and what is the same elements in another shape."""
    found = [name]
    for one in found:
        found += [user.name for user in users(one) if user.base_name in VIEWS - {"slice", "select"}]
    return found


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
