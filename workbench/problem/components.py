"""Axes that hold the few components of one thing: coordinates of a point, sides of a box.

A sum over three coordinates inside a minimum over points is arithmetic where the three is known, and a tensor
of sums, one for each pair of points, where it is not. Owns which axes are fixed for that.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model import Arg, Dim, Graph, OpNode, Problem, Ref

MOST = 4
"""Components that a thing has at most: more are rows of their own."""
REDUCTIONS = frozenset(["sum", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all"])
"""By ATen name without namespace and overload."""


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
    dims: dict[str, tuple[Dim, ...]] = {spec.name: spec.dims for spec in problem.tensors}
    dims |= {node.name: node.outs[0].dims for node in problem.graph.nodes}
    for node in problem.graph.nodes:
        operand = node.args[0] if node.args else None
        if name_of(node) not in REDUCTIONS or not isinstance(operand, Ref):
            continue
        shape = dims[operand.ref]
        axes = reduced_axes(node, len(shape))
        if len(axes) == 1 and reduced_again(problem.graph, node):
            yield shape[axes[0]]


def name_of(node: OpNode) -> str:
    """``sum`` of ``aten.sum.dim_IntList``."""
    return node.op.split(".")[1]


def reduced_axes(node: OpNode, count: int) -> list[int]:
    """The axes, of ``count``, that a reduction leaves out."""
    given = node.args[1] if len(node.args) > 1 else ()
    axes = [axis for axis in (given if isinstance(given, tuple) else (given,)) if isinstance(axis, int)]
    return sorted({axis % count for axis in axes}) if axes and count else list(range(count))


def reduced_again(graph: Graph, node: OpNode) -> bool:
    """True where a reduction reads a result, or what is made of it in the same shape.

    In another shape it may be spread along the axis again: a softmax sums what its maximum was taken off.
    """
    reached, shape = {node.name}, node.outs[0].dims
    for later in graph.nodes:
        if reached.isdisjoint(refs_in(later.args)):
            continue
        if name_of(later) in REDUCTIONS:
            return True
        if later.outs[0].dims == shape:
            reached.add(later.name)
    return False


def refs_in(args: tuple[Arg, ...]) -> Iterator[str]:
    """Names of the tensors among arguments."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from refs_in(arg)
        elif isinstance(arg, Ref):
            yield arg.ref
