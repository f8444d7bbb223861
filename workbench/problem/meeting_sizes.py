"""Sizes that meet in an operation: of shapes that are broadcast, and of rows that are at places or put there.

Owns what an op graph tells of it. Never says that such sizes are equal, or what is asked of them:
tied_sizes.py and fixed_sizes.py do of inputs, and the playbook of plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from workbench.model import Dim, OpNode, Problem, Ref

T = TypeVar("T")
Axis = tuple[str, int]
"""Name of an input, and a place in its shape."""
_AT_PLACES = (
    "aten.gather.default",
    "aten.scatter.value",
    "aten.scatter.src",
    "aten.scatter_add.default",
    "aten.scatter_reduce.two",
)


def dims_of(problem: Problem) -> dict[Ref, tuple[Dim, ...]]:
    """Sizes of every tensor and result; of several results, the first has the node's name alone too."""
    dims: dict[Ref, tuple[Dim, ...]] = {Ref(ref=spec.name): spec.dims for spec in problem.tensors}
    for node in problem.graph.nodes:
        for item, out in enumerate(node.outs):
            dims[Ref(ref=node.name, item=item)] = out.dims
        dims[Ref(ref=node.name)] = node.outs[0].dims
    return dims


def met_by(shapes: Sequence[Sequence[T]], one: T | int = 1) -> tuple[T, ...]:
    """The shape that these are broadcast to: sizes that meet are equal, unless one of them is ``one``."""
    met: list[T] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        sizes = [shape[-back] for shape in shapes if len(shape) >= back]
        met.insert(0, next((size for size in sizes if size != one), sizes[0]))
    return tuple(met)


def rows_at_places(node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]]) -> Iterator[tuple[Dim, Dim]]:
    """Of ``index_put`` by whole numbers along neighbouring axes: sizes of places and of rows, each with the
    one it meets, among the places or of what rows replace."""
    match node:
        case OpNode(op="aten.index_put.default", args=(Ref() as into, tuple() as given, Ref() as rows, *_)):
            axes = [axis for axis, one in enumerate(given) if one is not None]
            places = [dims[one] for one in given if isinstance(one, Ref)]
            if not axes or axes != list(range(axes[0], axes[-1] + 1)):
                return
            common = met_by(places)
            for shape in places:
                yield from zip(reversed(shape), reversed(common), strict=False)
            whole = (*dims[into][: axes[0]], *common, *dims[into][axes[-1] + 1 :])
            yield from zip(reversed(dims[rows]), reversed(whole), strict=False)


def masks_of(problem: Problem) -> frozenset[str]:
    """Names of tensors and results that say of elements whether they are meant."""
    given = [spec.name for spec in problem.tensors if spec.dtype == "bool"]
    return frozenset([*given, *(node.name for node in problem.graph.nodes if node.outs[0].dtype == "bool")])


def under_mask(
    node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]], masks: frozenset[str]
) -> Iterator[tuple[Dim, Dim]]:
    """Of ``x[mask] = value``: sizes of the mask, each with that of what it lies on."""
    match node:
        case OpNode(op="aten.index_put.default", args=(Ref() as into, (Ref() as mask,), *_)):
            yield from zip(dims[mask], dims[into], strict=False) if mask.ref in masks else ()


def beside_places(node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]]) -> Iterator[tuple[Dim, Dim]]:
    """Sizes of places and of what they are of, along other axes than theirs; of places and of values."""
    match node:
        case OpNode(args=(Ref() as source, int() as axis, Ref() as index, *rest)) if node.op in _AT_PLACES:
            if dims[source]:
                beside = list(zip(dims[index], dims[source], strict=True))
                yield from beside[: axis % len(beside)] + beside[axis % len(beside) + 1 :]
            values = rest[0] if rest else None
            if isinstance(values, Ref):
                yield from zip(dims[index], dims[values], strict=True)


def met_at_places(problem: Problem) -> Iterator[tuple[Dim, Dim]]:
    """Sizes of what lies at places or is put there, each with the one that it meets; a mask is no place."""
    dims, masks = dims_of(problem), masks_of(problem)
    for node in problem.graph.nodes:
        if masks.isdisjoint(ref.ref for ref in node.refs):
            yield from rows_at_places(node, dims)
        yield from under_mask(node, dims, masks)
        yield from beside_places(node, dims)
