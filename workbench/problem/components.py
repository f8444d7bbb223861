"""Axes that hold the few components of one thing: coordinates of a point, sides of a box.

A sum over three coordinates inside a minimum over points is arithmetic where the three is known, and a tensor
of sums, one for each pair of points, where it is not. Owns which axes are fixed for that. Rows of three that
lie in memory as they are stay rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from workbench.model import Dim, Graph, OpNode, Problem, Ref

MOST = 4
"""Components that a thing has at most: more are rows of their own."""
REDUCTIONS = frozenset(["sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all"])
"""By ATen name without namespace and overload."""
_ARITHMETIC = ("add", "sub", "mul", "div", "neg", "abs", "square", "pow", "sqrt", "rsqrt", "reciprocal")
_FUNCTIONS = ("exp", "log", "sigmoid", "tanh", "clamp", "clamp_min", "maximum", "minimum", "where")
_ONE_BY_ONE = frozenset(["view", "_to_copy", *_ARITHMETIC, *_FUNCTIONS])
"""What is made of a result element by element. No table of torch's: the playbook asks here too."""


def components(problem: Problem) -> tuple[tuple[str, int], ...]:
    """Axes of inputs, by name and place, that are reduced alone and whose result is reduced again.

    Those alone that have the same few elements in every declared case.
    """
    sizes = [dict(case.sizes) for case in problem.cases]
    few = {symbol for symbol in problem.symbols if {one[symbol] for one in sizes} & set(range(2, MOST + 1))}
    few = {symbol for symbol in few if len({one[symbol] for one in sizes}) == 1}
    found = {symbol for symbol in _reduced(problem) if symbol in few}
    return tuple(
        (spec.name, axis) for spec in problem.tensors for axis, dim in enumerate(spec.dims) if dim in found
    )


def _reduced(problem: Problem) -> Iterator[Dim]:
    """Sizes of axes that are reduced one at a time and before another reduction."""
    nodes = {node.name: node for node in problem.graph.nodes}
    given: dict[str, tuple[Dim, ...]] = {spec.name: spec.dims for spec in problem.tensors}
    for node in problem.graph.nodes:
        operand = node.args[0] if node.args else None
        made = nodes.get(operand.ref) if isinstance(operand, Ref) else None
        if made is None:
            continue
        shape = made.outs[0].dims
        axes = _axes_of(node, len(shape))
        if len(axes) != 1 or not reduced_again(problem.graph, node, shape[axes[0]]):
            continue
        if all(is_less(given[name], shape) for name in _inputs_of(made, nodes, given)):
            yield shape[axes[0]]


def _axes_of(node: OpNode, count: int) -> list[int]:
    """The axes, of ``count``, of a first operand that a node adds up or reduces."""
    if node.op == "aten.bmm.default" and node.outs[0].dims[1:] == (1, 1):
        return [2]  # the product of a vector with a vector, as an einsum over coordinates is
    return reduced_axes(node, count) if node.base_name in REDUCTIONS else []


def _inputs_of(made: OpNode, nodes: Mapping[str, OpNode], given: Collection[str]) -> set[str]:
    """The tensors that a result is made of."""
    pending, seen = [made.name], set[str]()
    while pending:
        name = pending.pop()
        if name not in seen:
            seen.add(name)
            pending += [ref.ref for ref in nodes[name].refs] if name in nodes else []
    return seen & set(given)


def is_less(dims: tuple[Dim, ...], than: tuple[Dim, ...]) -> bool:
    """True for a tensor that lacks some axis of another, along which it is the same again and again."""
    return bool(Counter(dim for dim in than if dim != 1) - Counter(dims))


def reduced_axes(node: OpNode, count: int) -> list[int]:
    """The axes, of ``count``, that a reduction leaves out."""
    given = node.args[1] if len(node.args) > 1 else ()
    axes = [axis for axis in (given if isinstance(given, tuple) else (given,)) if isinstance(axis, int)]
    return sorted({axis % count for axis in axes}) if axes and count else list(range(count))


def reduced_again(graph: Graph, node: OpNode, along: Dim) -> bool:
    """True where a reduction reads a result, or what is made of it element by element.

    Not where it is spread along the axis again, whose size was ``along``: a softmax sums what its maximum was
    taken off.
    """
    reached, shape = {node.name}, node.outs[0].dims
    for later in graph.nodes:
        if reached.isdisjoint(ref.ref for ref in later.refs):
            continue
        if later.base_name in REDUCTIONS:
            return True
        dims = later.outs[0].dims
        if dims == shape or (along not in dims and later.base_name in _ONE_BY_ONE):
            reached.add(later.name)
    return False
