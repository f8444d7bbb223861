"""Sizes of inputs that can be but one number: the reference takes no other, whatever the export says of it.

Half of a row goes into a layer of sixteen features, so that rows have 32; an export that cuts a row of any
length in two asks for nothing. A kernel that has to allow for other lengths does not know that what it writes
has as many elements as what it reads. And where a convolution's weights are an input, other channels would be
another network: a kernel that knows how many there are keeps tiles of them on the chip. Owns which axes these
are. Never says what is asked of other sizes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from workbench.model import Dim, OpNode, Problem, Ref, size_of
from workbench.numerics.pointwise import POINTWISE
from workbench.problem.meeting_sizes import Axis, dims_of, met_at_places

_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")
_PRODUCTS = ("aten.mm.default", "aten.bmm.default")
_NEAR = 64
"""How far from the declared size others are looked for that would do as well."""

_Pair = tuple[Dim, Dim]


def fixed_sizes(problem: Problem) -> tuple[Axis, ...]:
    """Axes of inputs that have the same size in every case, and that no other size would do for."""
    declared = _declared(problem)
    pairs, fixed, before = list(_met(problem)), dict[str, int](), -1
    while before < len(fixed):  # what is known of one tells of others that it meets
        before = len(fixed)
        for symbol in declared.keys() - fixed.keys():
            told = [pair for pair in pairs if _left_open(pair, fixed) == {symbol}]
            if told and _is_alone(told, symbol, fixed | {symbol: declared[symbol]}):
                fixed[symbol] = declared[symbol]
    return _axes(problem, fixed)


def channels(problem: Problem) -> tuple[Axis, ...]:
    """Axes of inputs as long as an axis of a convolution's weights, with the same size in every case."""
    dims = dims_of(problem)
    convolutions = (node for node in problem.graph.nodes if node.op == "aten.convolution.default")
    weights = [dims[ref] for node in convolutions for ref in node.refs[1:2]]
    return _axes(problem, _declared(problem).keys() & {dim for shape in weights for dim in shape})


def _product(sizes: Iterable[Dim]) -> str:
    return "*".join(f"({size})" for size in sizes) or "1"


def _declared(problem: Problem) -> dict[str, int]:
    """Sizes that are the same in every declared case."""
    return {
        symbol: sizes.pop()
        for symbol in problem.symbols
        if len(sizes := {case.size_map[symbol] for case in problem.cases}) == 1
    }


def _axes(problem: Problem, symbols: Collection[Dim]) -> tuple[Axis, ...]:
    shapes = ((spec.name, at, dim) for spec in problem.tensors for at, dim in enumerate(spec.dims))
    return tuple((name, at) for name, at, dim in shapes if dim in symbols)


def _left_open(pair: _Pair, fixed: Mapping[str, int]) -> set[str]:
    return {symbol for dim in pair for symbol in _SYMBOL.findall(str(dim))} - fixed.keys()


def _is_alone(pairs: Iterable[_Pair], symbol: str, sizes: Mapping[str, int]) -> bool:
    """Whether sizes agree where the symbol is as declared, and for no other size of it."""
    own = sizes[symbol]
    others = {*range(max(1, own - _NEAR), own + _NEAR + 1), own // 2, 2 * own, 4 * own} - {0, own}
    left = list(pairs)
    if not all(_agree(pair, sizes) for pair in left):
        return False
    return not any(all(_agree(pair, {**sizes, symbol: other}) for pair in left) for other in others)


def _agree(pair: _Pair, sizes: Mapping[str, int]) -> bool:
    try:
        return size_of(pair[0], sizes) == size_of(pair[1], sizes)
    except ZeroDivisionError:
        return False


def _met(problem: Problem) -> Iterator[_Pair]:
    """Sizes that an operation takes for equal."""
    dims = dims_of(problem)
    met = (
        _met_pointwise(node, dims) if node.base_name in POINTWISE else _met_inside(node, dims)
        for node in problem.graph.nodes
    )
    yield from (pair for pair in chain(met_at_places(problem), *met) if pair[0] != pair[1])


def _met_pointwise(node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]]) -> Iterator[_Pair]:
    for ref in node.refs:
        for own, wide in zip(reversed(dims[ref]), reversed(node.outs[0].dims), strict=False):
            if own != 1:
                yield own, wide


def _met_inside(node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]]) -> Iterator[_Pair]:
    """Sizes that a product adds up along, of a convolution's channels and weights, of a view's elements."""
    match node:
        case OpNode(op="aten.view.default", args=(Ref() as source, *_)):
            before, after = Counter(dims[source]), Counter(node.outs[0].dims)
            yield _product((before - after).elements()), _product((after - before).elements())
        case OpNode(args=(Ref() as one, Ref() as other, *_)) if node.op in _PRODUCTS:
            yield dims[one][-1], dims[other][-2]
        case OpNode(op="aten.convolution.default", args=(Ref() as image, Ref() as weight, *rest)):
            *_, is_transposed, _, groups = rest
            if is_transposed:
                yield dims[image][1], dims[weight][0]
            elif isinstance(of_group := dims[weight][1], int) and isinstance(groups, int):
                yield dims[image][1], of_group * groups
