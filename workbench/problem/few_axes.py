"""Axes of few elements that are reduced: experts of a token, layers, coordinates.

A sum of two terms is an addition where the two is known. Owns which reductions are of few elements, and which
axes of inputs are fixed so that they are: those with many neighbours behind them, which threads side by side
have one each of, those whose elements the reference takes one by one, and the coordinates of many points.
Other reductions along rows stay reductions unless their length was fixed by the reference.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from workbench.model import Dim, Graph, OpNode, Problem, Ref, size_of
from workbench.problem.components import MOST as FEWEST
from workbench.problem.components import REDUCTIONS, reduced_again, reduced_axes
from workbench.problem.small_systems import few_unknowns

MOST = 8
"""Elements that an axis of few has at most."""
MANY = 2**12
"""Points from which on it is worth knowing how many coordinates they have."""
BESIDE = 32
"""Neighbours behind such an axis from which on a warp's threads have one each."""
ROW = 256
"""Neighbours behind such an axis that are a row for a team of threads."""
SUMS = 64
"""Results of a product at most, for a thread to have a part of the sum of each: eight unknowns, squared."""
FIXED_SUMS = 36
"""The same where sizes are fixed for it: of eight rows that enter a layer there may be nine another time."""
LONG_SUM = 16
"""Terms from which on such a sum is one along a row, and is not written out."""
SORTED = 16
"""Elements that a row has at most which a network puts in order: 63 comparators, a register an element."""
TERMS = frozenset(["sum", "prod", "amax", "amin", "any", "all"])
"""Reductions that are operations on two elements at a time, by ATen name."""
_IN_ORDER = {"sort": 1, "median": 1, "nanmedian": 1, "kthvalue": 2}
"""Operations that put a row in order, by ATen name, and at which position they take its axis."""
_WINDOWS = re.compile("pool|convolution|upsample|im2col")
"""What is made of many elements each: written out, every result would make all of an axis for itself."""
Sizes = Sequence[Mapping[str, int]]


def few_axes(problem: Problem) -> tuple[tuple[str, int], ...]:
    """Axes of inputs, by name and place, that are taken apart or whose reductions can be written out.

    Of more than a point's coordinates none where something else is reduced too, unless before it: long rows
    have threads of their own.
    """
    sizes = [dict(case.sizes) for case in problem.cases]
    given = {spec.name: spec.dims for spec in problem.tensors}
    apart = _taken_apart(problem.graph, given, sizes)
    fixed: set[Dim] = {dim for dim in apart if isinstance(dim, str)}
    alone = reduced_few(problem.graph, given, sizes)
    if any(shape[axis] in apart or _is_beside(shape, axis, sizes) for shape, axis in alone.values()):
        fixed |= {shape[axis] for shape, axis in alone.values() if isinstance(shape[axis], str)}
    for shape, axis in few_among(problem.graph, given, sizes, FEWEST).values():
        if isinstance(shape[axis], str) and _is_of_many(shape, axis, sizes):
            fixed.add(shape[axis])
    fixed |= _in_order(problem.graph, given, sizes)
    fixed |= _of_small_matrices(problem.graph, given, sizes)
    fixed |= _of_few_sums(problem.graph, given, sizes)
    fixed.update(dim for dim in few_unknowns(problem.graph, given, sizes) if isinstance(dim, str))
    before = few_before_rows(problem.graph, given, sizes)
    fixed.update(_met_in(problem.graph, given, before))
    return tuple(
        (spec.name, axis) for spec in problem.tensors for axis, dim in enumerate(spec.dims) if dim in fixed
    )


def _of_small_matrices(graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes) -> set[Dim]:
    """Sizes of many small matrices that are multiplied one by one, as poses are, and of one that many points
    are turned by. Twists that are composed with half a million of them took 987 us of an H200 with a
    library's product in between, 47 times what their bytes ask for."""
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    found = set[Dim]()
    for node in graph.nodes:
        left, right = node.args[:2] if node.op in ("aten.bmm.default", "aten.mm.default") else (None, None)
        if isinstance(left, Ref) and isinstance(right, Ref) and not (left.item or right.item):
            *batch, rows, depth = shapes[left.ref]
            columns = shapes[right.ref][-1]
            ways: list[tuple[list[Dim], list[Dim]]] = [([*batch, rows], [depth, columns])]
            if batch:
                ways.append((batch, [rows, depth, columns]))
            if all(size_of(rows, one) == size_of(depth, one) for one in sizes):  # points are columns here
                ways.append(([*batch, columns], [rows, depth]))
            for many, matrix in ways:
                if _is_small(matrix, sizes) and all(_count(many, one) >= MANY for one in sizes):
                    found.update(dim for dim in matrix if isinstance(dim, str))
    return found


def _is_small(matrix: Sequence[Dim], sizes: Sizes) -> bool:
    """True where no size of a matrix is above ``FEWEST``, and each is the same at all of ``sizes``."""
    known = [{size_of(dim, one) for one in sizes} for dim in matrix]
    return all(len(found) == 1 and min(found) >= 1 and max(found) <= FEWEST for found in known)


def _count(dims: Sequence[Dim], sizes: Mapping[str, int]) -> int:
    return math.prod(size_of(dim, sizes) for dim in dims)


def is_of_few_sums(rows: Dim, columns: Dim, depth: Dim, sizes: Sizes) -> bool:
    """True for a product of at most ``SUMS`` results, each a sum of many terms, at all of ``sizes``."""
    most = SUMS if isinstance(rows, int) and isinstance(columns, int) else FIXED_SUMS
    few = all(size_of(rows, one) * size_of(columns, one) <= most for one in sizes)
    return few and all(size_of(depth, one) >= LONG_SUM for one in sizes)


def _of_few_sums(graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes) -> set[Dim]:
    """Sizes of results that are few, of sums that are long."""
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    found = set[Dim]()
    for node in graph.nodes:
        left = node.args[0] if node.op in ("aten.mm.default", "aten.bmm.default") else None
        if isinstance(left, Ref) and not left.item:
            rows, columns = few = node.outs[0].dims[-2:]
            same = all(len({size_of(dim, one) for one in sizes}) == 1 for dim in few)
            if same and is_of_few_sums(rows, columns, shapes[left.ref][-1], sizes):
                found.update(dim for dim in few if isinstance(dim, str))
    return found


def few_before_rows(
    graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes
) -> dict[str, tuple[tuple[Dim, ...], int]]:
    """What is reduced along an axis of few, by node, and again along the row behind it: the experts of a
    token, whose sum is normalised. The kernel that has the row makes the sum."""
    nodes = {node.name: node for node in graph.nodes}
    found = few_among(graph, given, sizes, MOST)
    return {
        name: (shape, axis)
        for name, (shape, axis) in found.items()
        if _is_beside(shape, axis, sizes, ROW) and reduced_again(graph, nodes[name], shape[axis])
    }


def _met_in(
    graph: Graph, given: Mapping[str, tuple[Dim, ...]], found: Mapping[str, tuple[tuple[Dim, ...], int]]
) -> Iterator[Dim]:
    """Sizes of axes that are reduced, and of those that they meet in what is reduced."""
    nodes = {node.name: node for node in graph.nodes}
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    for name, (shape, axis) in found.items():
        operand = nodes[name].args[0]
        made = nodes.get(operand.ref) if isinstance(operand, Ref) else None
        refs = [ref.ref for ref in made.refs if not ref.item] if made is not None else []
        met = [shapes[ref] for ref in refs if len(shapes[ref]) >= len(shape) - axis]
        yield from (dim for dim in (shape[axis], *(one[axis - len(shape)] for one in met)) if dim != 1)


def _in_order(graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes) -> set[Dim]:
    """Sizes of axes along which rows of few elements are put in order."""
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    found = set[Dim]()
    for node in graph.nodes:
        operand = node.args[0] if node.args else None
        if node.base_name not in _IN_ORDER or not isinstance(operand, Ref) or operand.item:
            continue
        position, shape = _IN_ORDER[node.base_name], shapes[operand.ref]
        axis = node.args[position] if len(node.args) > position else dict(node.kwargs).get("dim", -1)
        if not isinstance(axis, int) or not shape or node.op.endswith("median.default"):  # of all elements
            continue
        dim = shape[axis % len(shape)]
        counts = {size_of(dim, one) for one in sizes}
        if isinstance(dim, str) and len(counts) == 1 and counts <= set(range(2, SORTED + 1)):
            found.add(dim)
    return found


def _taken_apart(graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes) -> set[Dim]:
    """Sizes of axes of which the reference takes every element by its place, as ``x, y, z`` of a vector.

    So it does by slices with two ends, as the turn and the shift of a movement are of a matrix.
    """
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    taken: dict[Dim, set[int]] = {}
    for node in graph.nodes:
        match node:
            case OpNode(op="aten.select.int", args=(Ref(ref=name), int() as axis, int() as place)):
                taken.setdefault(shapes[name][axis], set()).add(place)
            case OpNode(
                op="aten.slice.Tensor", args=(Ref(ref=name), int() as axis, int() as start, int() as end)
            ) if 0 <= start < end <= MOST:
                taken.setdefault(shapes[name][axis], set()).update(range(start, end))
    few = {dim: places for dim, places in taken.items() if 2 <= len(places) <= MOST}
    return {dim for dim, places in few.items() if all(places == set(range(size_of(dim, s))) for s in sizes)}


def reduced_few(
    graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes
) -> dict[str, tuple[tuple[Dim, ...], int]]:
    """What is reduced and along which axis, by node: all reductions of a graph, if each is of few elements
    and none of them is seen through windows.

    An axis has as many in every one of ``sizes``. Behind it is nothing, or a warp's worth of neighbours.
    """
    found = few_among(graph, given, sizes, MOST)
    reductions = sum(node.base_name in REDUCTIONS for node in graph.nodes)
    return found if len(found) == reductions else {}


def few_among(
    graph: Graph, given: Mapping[str, tuple[Dim, ...]], sizes: Sizes, most: int
) -> dict[str, tuple[tuple[Dim, ...], int]]:
    """The same, of up to ``most`` elements, also where others are of more."""
    shapes = {**given, **{node.name: node.outs[0].dims for node in graph.nodes}}
    if any(_WINDOWS.search(node.base_name) for node in graph.nodes):
        return {}
    found = {}
    for node in graph.nodes:
        if node.base_name in TERMS and (one := _one_axis(node, shapes)) and _is_few(*one, sizes, most):
            found[node.name] = one
    return found


def _one_axis(node: OpNode, shapes: Mapping[str, tuple[Dim, ...]]) -> tuple[tuple[Dim, ...], int] | None:
    operand = node.args[0] if node.args else None
    if not isinstance(operand, Ref) or operand.item:
        return None
    shape = shapes[operand.ref]
    axes = reduced_axes(node, len(shape))
    return (shape, axes[0]) if len(axes) == 1 else None


def _is_few(shape: tuple[Dim, ...], axis: int, sizes: Sizes, most: int) -> bool:
    counts = {size_of(shape[axis], one) for one in sizes}
    few = len(counts) == 1 and counts <= set(range(2, most + 1))
    return few and (_is_last(shape, axis) or _is_beside(shape, axis, sizes))


def _is_last(shape: tuple[Dim, ...], axis: int) -> bool:
    return all(dim == 1 for dim in shape[axis + 1 :])


def _is_of_many(shape: tuple[Dim, ...], axis: int, sizes: Sizes) -> bool:
    others = shape[:axis] + shape[axis + 1 :]
    return bool(sizes) and all(math.prod(size_of(dim, one) for dim in others) >= MANY for one in sizes)


def _is_beside(shape: tuple[Dim, ...], axis: int, sizes: Sizes, least: int = BESIDE) -> bool:
    return bool(sizes) and all(
        math.prod(size_of(dim, one) for dim in shape[axis + 1 :]) >= least for one in sizes
    )
