"""What a plan must ask of sizes: whether those that meet are equal, and whether what is taken lies inside.

The halves of a row that is cut in two are as long as each other only where its length is even. The reference
refuses other lengths as it runs; a kernel would read beyond the shorter half. The fourth column is taken of
rows that have as many; a slice from there on is cut short by torch where they have not. Values that are added
at places are one for each. Owns which sizes these are, and how a plan spells them; never writes a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from workbench.model import Dim, OpNode, Problem, Ref, TensorSpec, size_of
from workbench.playbook.ir.operations import is_pointwise
from workbench.playbook.ir.sizes import Products, Sizes
from workbench.problem.meeting_sizes import dims_of, masks_of, rows_at_places, under_mask

_QUOTIENT = re.compile(r"\b([A-Za-z_]\w*)//([A-Za-z_]\w*)")
_DIVISOR = re.compile(r"//\s*(\d+)")
_PRODUCT = re.compile(r"[A-Za-z_]\w*(\*[A-Za-z_]\w*)*")

_POINTS = 12
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def sizes_of(problem: Problem) -> Sizes:
    """Reads dimensions of one problem.

    Sizes at which a tensor is empty, as ``x[:, 1:]`` of one column is, say nothing: zero divides nothing.
    """
    dims, accepted = _known(problem)
    divisors = {int(found) for dim in dims for found in _DIVISOR.findall(dim)}
    return Sizes(problem.symbols, accepted, divisors, _equal_products(problem), _exact(dims, accepted))


def _known(problem: Problem) -> tuple[set[str], list[Mapping[str, int]]]:
    """Sizes of all results, and of what symbols the reference accepts, without those that leave one empty."""
    dims = {str(dim) for node in problem.graph.nodes for out in node.outs for dim in out.dims}
    accepted = [case.size_map for case in (*problem.proofs, *problem.cases, *problem.accepted)]
    return dims, [sizes for sizes in accepted if not _some_empty(dims, sizes)]


def _exact(dims: Iterable[str], accepted: Sequence[Mapping[str, int]]) -> list[tuple[str, str]]:
    """Sizes that one divides by another, as heads by groups of heads, where nothing is ever left over."""
    found = dict.fromkeys(pair for dim in sorted(dims) for pair in _QUOTIENT.findall(dim))
    return [
        (whole, part)
        for whole, part in found
        if all(sizes[part] and sizes[whole] % sizes[part] == 0 for sizes in accepted)
    ]


def exact_quotients(problem: Problem, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Sizes in the plan language, each with one that divides it without rest: elsewhere nothing is known."""
    return [(names[whole], names[part]) for whole, part in _exact(*_known(problem))]


def _equal_products(problem: Problem) -> list[Products]:
    """Products of sizes that the plan asks to be equal, as of images that are flattened before they meet."""
    found: list[dict[str, None]] = []
    for pair in _pairs(problem):
        texts = [str(dim) for dim in pair]
        if all(_PRODUCT.fullmatch(text) for text in texts):
            known = [group for group in found if not group.keys().isdisjoint(texts)]
            found = [group for group in found if group not in known]
            found.append(dict.fromkeys([text for group in known for text in group] + texts))
    return [tuple(tuple(text.split("*")) for text in group) for group in found]


def _some_empty(dims: Iterable[str], sizes: Mapping[str, int]) -> bool:
    try:
        return any(size_of(dim, sizes) == 0 for dim in dims)
    except ZeroDivisionError:
        return True


def in_order_of_reading(tensors: Sequence[TensorSpec], sizes: Sizes) -> list[TensorSpec]:
    """Arguments whose sizes can be read one by one: where one has a product or a sum of sizes, these are
    others' axes."""
    left, known, found = list(tensors), set[str](), list[TensorSpec]()

    def readable(spec: TensorSpec) -> bool:
        seen = set(known)
        for size in sizes.shape(spec.dims):
            seen |= set(size.symbols) if len(size.symbols) == 1 else set()
        return all(seen.issuperset(size.symbols) for size in sizes.shape(spec.dims))

    while left:
        spec = next(filter(readable, left), left[0])
        left.remove(spec)
        found.append(spec)
        known.update(symbol for size in sizes.shape(spec.dims) for symbol in size.symbols)
    return found


def agreements(problem: Problem, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of sizes that must be equal, in the plan language; ``names`` are the symbols' in the plan."""
    return [(_spelt(one, names), _spelt(other, names)) for one, other in _pairs(problem)]


def most_sizes(problem: Problem, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of sizes, in the plan language, of which the first must not be larger than the second.

    ``scatter`` takes no more values than there are, and reaches no further than where they belong.
    """
    dims = dims_of(problem)
    points = list(_points(problem.symbols))
    found: dict[tuple[Dim, Dim], None] = {}
    for node in problem.graph.nodes:
        match node:
            case OpNode(
                op="aten.scatter.src"
                | "aten.scatter.value"
                | "aten.scatter_add.default"
                | "aten.scatter_reduce.two",
                args=(Ref() as into, int() as axis, Ref() as index, source, *_),
            ):
                for i, size in enumerate(dims[index]):
                    most = [] if i == axis % len(dims[index]) else [dims[into][i]]
                    most += [dims[source][i]] if isinstance(source, Ref) else []
                    found.update(dict.fromkeys((size, one) for one in most))
    pairs = [pair for pair in found if not all(_is_within(*pair, point) for point in points)]
    return [(_spelt(one, names), _spelt(other, names)) for one, other in pairs]


def least_sizes(problem: Problem, names: Mapping[str, str]) -> list[tuple[str, int]]:
    """Sizes, in the plan language, and how large each must be for the slices and columns that are taken."""
    dims = dims_of(problem)
    points = [dict.fromkeys(problem.symbols, 1), *_points(problem.symbols)]
    found: dict[Dim, int] = {}
    for node in problem.graph.nodes:
        if node.op not in ("aten.slice.Tensor", "aten.select.int") or not isinstance(node.args[0], Ref):
            continue
        source = dims[node.args[0]]
        axis = node.args[1] if len(node.args) > 1 else 0
        size = source[axis % len(source)] if isinstance(axis, int) else 1
        end = _end(node, axis if isinstance(axis, int) else 0)
        if isinstance(size, str) and any(_falls_short(size, end, point) for point in points):
            found[size] = max(found.get(size, 0), end)
    return [(_spelt(size, names), end) for size, end in found.items()]


def _end(node: OpNode, axis: int) -> int:
    """How many elements of an axis there must be; 0 where only sizes tell."""
    start = node.args[2] if len(node.args) > 2 and node.args[2] is not None else 0
    if node.op == "aten.slice.Tensor" and not isinstance(start, int):
        return _span(node, axis)  # the last three of a row, as a roll has them
    if not isinstance(start, int):
        return 0
    if start < 0:
        return -start
    if node.op == "aten.select.int":
        return start + 1
    return start + _span(node, axis)


def _span(node: OpNode, axis: int) -> int:
    """From the first to the last element that a slice takes; 0 where only sizes tell."""
    count = node.outs[0].dims[axis]
    step = node.args[4] if len(node.args) > 4 else 1
    return (count - 1) * step + 1 if isinstance(count, int) and isinstance(step, int) else 0


def _falls_short(size: Dim, end: int, sizes: Mapping[str, int]) -> bool:
    try:
        return size_of(size, sizes) < end
    except ZeroDivisionError:
        return False


def _spelt(dim: Dim, names: Mapping[str, str]) -> str:
    """A size as the graph has it: by its value, another spelling would do."""
    return re.sub(r"\b[A-Za-z_]\w*\b(?!\()", lambda found: names[found.group()], str(dim)).replace(
        "//", " // "
    )


def _pairs(problem: Problem) -> tuple[tuple[Dim, Dim], ...]:
    """Sizes that pointwise operations take for equal, and that are not equal whatever the sizes."""
    dims, masks = dims_of(problem), masks_of(problem)
    points = list(_points(problem.symbols))
    found: dict[tuple[Dim, Dim], None] = {}
    for node in problem.graph.nodes:
        for own, wide in (*_met(node, dims), *under_mask(node, dims, masks)):
            if own not in (wide, 1) and not all(_agree(own, wide, point) for point in points):
                found[own, wide] = None
    return tuple(pair for pair in found if pair[::-1] not in found or str(pair[0]) < str(pair[1]))


def _met(node: OpNode, dims: Mapping[Ref, tuple[Dim, ...]]) -> Iterator[tuple[Dim, Dim]]:
    """Sizes of operands, each with that of the result that it meets."""
    if is_pointwise(node):
        for ref in node.refs:
            yield from zip(reversed(dims[ref]), reversed(node.outs[0].dims), strict=False)
    match node:
        case OpNode(op="aten.index_put.default", args=(_, _, _, True)):
            yield from rows_at_places(node, dims)
        case OpNode(op="aten.expand.default", args=(Ref() as source, *_)):
            yield from zip(reversed(dims[source]), reversed(node.outs[0].dims), strict=False)
        case OpNode(op="aten.put.default", args=(_, Ref() as index, Ref() as value, True)):
            yield from zip(dims[value], dims[index], strict=False)


def _points(symbols: tuple[str, ...]) -> Iterator[Mapping[str, int]]:
    for shift in range(_POINTS):
        yield {
            name: _PRIMES[(3 * place + shift) % len(_PRIMES)] * (1 + shift % 3) + place
            for place, name in enumerate(symbols)
        }


def _agree(one: Dim, other: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return size_of(one, sizes) == size_of(other, sizes)
    except ZeroDivisionError:
        return True


def _is_within(one: Dim, other: Dim, sizes: Mapping[str, int]) -> bool:
    try:
        return size_of(one, sizes) <= size_of(other, sizes)
    except ZeroDivisionError:
        return True
