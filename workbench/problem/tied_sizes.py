"""Sizes of several inputs that meet only as part of a longer one, and are equal all the same.

A language model's loss flattens logits without the last token and labels without the first: (length - 1) *
batch rows here and there, which the reference compares and nothing else. Nobody brings lengths that differ
while these agree, and a kernel that has to allow for them does not know which label is whose.
Owns which sizes those are. Images whose heights and widths meet as products stay as they are: what is
flattened has no rows any more.

Rows that are put at places, ``canvas[:, places] = rows``, are as many as the places and as long as what they
replace. An export asks for neither, as either may be one that is spread over the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from workbench.model import Dim, OpNode, Problem, Ref, size_of
from workbench.numerics.pointwise import POINTWISE

Axis = tuple[str, int]
"""Name of an input, and a place in its shape."""
_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")
_PRODUCT = re.compile(r"[A-Za-z_]\w*(\*[A-Za-z_]\w*)*")
_POINTS = 5


def tied_sizes(problem: Problem) -> tuple[tuple[Axis, Axis], ...]:
    """Pairs of axes that are as long as each other in every declared case, and that sums of sizes ask for."""
    found: dict[str, str] = {}
    for one, other in _met(problem):
        found |= _matching(problem, one, other)
    axes = {dim: (spec.name, at) for spec in problem.tensors for at, dim in enumerate(spec.dims)}
    return tuple((axes[one], axes[other]) for one, other in found.items() if one in axes and other in axes)


def fixed_by_places(problem: Problem) -> tuple[Axis, ...]:
    """Axes of rows that are put at places of a tensor whose own size is a number."""
    fixed = {
        one
        for one, whole in _put(problem, _shapes(problem))
        if isinstance(one, str) and isinstance(whole, int) and _is_always(problem, one, whole)
    }
    return tuple(
        (spec.name, at) for spec in problem.tensors for at, dim in enumerate(spec.dims) if dim in fixed
    )


def _is_always(problem: Problem, symbol: str, size: int) -> bool:
    return all(size_of(symbol, case.size_map) == size for case in problem.cases)


Shapes = dict[tuple[str, int | None], tuple[Dim, ...]]


def _shapes(problem: Problem) -> Shapes:
    """Of every tensor and result, by name and number; those without a number are tensors."""
    dims: Shapes = {(spec.name, None): spec.dims for spec in problem.tensors}
    return dims | {(n.name, item): out.dims for n in problem.graph.nodes for item, out in enumerate(n.outs)}


def _of(dims: Shapes, ref: Ref) -> tuple[Dim, ...]:
    return dims.get((ref.ref, ref.item)) or dims.get((ref.ref, 0), ())


def _put(problem: Problem, dims: Shapes) -> Iterator[tuple[Dim, Dim]]:
    """Sizes of rows, each with that of the places they are put at, or of what they replace there."""
    masks = {spec.name for spec in problem.tensors if spec.dtype == "bool"}
    masks |= {node.name for node in problem.graph.nodes if node.outs[0].dtype == "bool"}
    for node in problem.graph.nodes:
        match node:
            case OpNode(
                op="aten.index_put.default", args=(Ref() as into, tuple() as given, Ref() as rows, *_)
            ):
                axes = [axis for axis, one in enumerate(given) if one is not None]
                places = [one for one in given if isinstance(one, Ref)]
                if axes != list(range(axes[0], axes[-1] + 1)) or any(one.ref in masks for one in places):
                    continue
                common = max((_of(dims, one) for one in places), key=len)
                whole = _of(dims, into)
                wanted = (*whole[: axes[0]], *common, *whole[axes[-1] + 1 :])
                yield from zip(reversed(_of(dims, rows)), reversed(wanted), strict=False)


def _met(problem: Problem) -> Iterator[tuple[str, str]]:
    """Sizes that operations take for equal; of pointwise ones, where one of them is more than a product."""
    dims = _shapes(problem)
    for one, whole in _put(problem, dims):
        if isinstance(one, str) and isinstance(whole, str) and one != whole:
            yield one, whole
    for node in problem.graph.nodes:
        if node.base_name not in POINTWISE:
            continue
        for own in (_of(dims, ref) for ref in node.refs):
            for one, whole in zip(reversed(own), reversed(node.outs[0].dims), strict=False):
                plain = all(_PRODUCT.fullmatch(str(dim)) for dim in (one, whole))
                if isinstance(one, str) and isinstance(whole, str) and one != whole and not plain:
                    yield one, whole


def _matching(problem: Problem, one: str, other: str) -> dict[str, str]:
    """Symbols of ``one`` by those of ``other``, where these being equal makes both the same; else none."""
    left, right = (list(dict.fromkeys(_SYMBOL.findall(text))) for text in (one, other))
    if set(left) & set(right) or len(left) != len(right):
        return {}
    found: dict[str, str] = {}
    for symbol in right:
        equal = [s for s in left if s not in found.values() and _are_equal(problem, s, symbol)]
        if not equal:
            return {}
        found[symbol] = equal[0]
    same = all(size_of(one, point) == size_of(other, point) for point in _points(found))
    return found if same else {}


def _are_equal(problem: Problem, one: str, other: str) -> bool:
    return all(case.size_map[one] == case.size_map[other] for case in problem.cases)


def _points(matched: Mapping[str, str]) -> Iterator[dict[str, int]]:
    """Sizes at which all that are matched agree."""
    for turn in range(_POINTS):
        sizes = {left: 7 + 5 * turn + 3 * place for place, left in enumerate(matched.values())}
        yield sizes | {right: sizes[left] for right, left in matched.items()}
