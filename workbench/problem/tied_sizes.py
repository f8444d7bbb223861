"""Sizes of several inputs that meet only as part of a longer one, and are equal all the same.

A language model's loss flattens logits without the last token and labels without the first: (length - 1) *
batch rows here and there, which the reference compares and nothing else. Nobody brings lengths that differ
while these agree, and a kernel that has to allow for them does not know which label is whose.
Owns which sizes those are. Images whose heights and widths meet as products stay as they are: what is
flattened has no rows any more.

Rows that are put at places, ``canvas[:, places] = rows``, are as many as the places and as long as what they
replace. An export asks for neither, as either may be one that is spread over the others. What is gathered has
as many rows as there are: torch would take fewer places, and rows behind them would be left out.

Some are so many times as long as others: what is guided by a text and what is not are halves of one batch,
and what eight experts made of each token is seen as eight rows for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from workbench.model import Dim, Problem, Ref, size_of
from workbench.numerics.pointwise import POINTWISE
from workbench.problem.meeting_sizes import Axis, dims_of, met_at_places

_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\()")
_NAME = re.compile(r"[A-Za-z_]\w*")
_PRODUCT = re.compile(r"[A-Za-z_]\w*(\*[A-Za-z_]\w*)*")
_POINTS = 5


@dataclass(frozen=True)
class Tie:
    """An axis that is ``times`` as long as another."""

    long: Axis
    times: int
    short: Axis


def tied_sizes(problem: Problem) -> tuple[Tie, ...]:
    """Axes that sums and parts of sizes ask to be as long as others, or so many times as long.

    They are in every declared case.
    """
    found: dict[str, tuple[int, str]] = {}
    for one, other in _met(problem):
        found |= _matching(problem, one, other)
    axes = {dim: (spec.name, at) for spec in problem.tensors for at, dim in enumerate(spec.dims)}
    return tuple(
        Tie(axes[long], times, axes[short])
        for long, (times, short) in found.items()
        if long in axes and short in axes
    )


def _met(problem: Problem) -> Iterator[tuple[str, str]]:
    """Sizes that operations take for equal; of pointwise ones, where one of them is more than a product."""
    for one, whole in met_at_places(problem):
        if isinstance(one, str) and isinstance(whole, str) and one != whole:
            yield one, whole
    dims = dims_of(problem)
    for node in problem.graph.nodes:
        if node.op == "aten.view.default" and isinstance(node.args[0], Ref):
            yield from _seen_as(dims[node.args[0]], node.outs[0].dims)
        if node.base_name not in POINTWISE:
            continue
        for own in (dims[ref] for ref in node.refs):
            for one, whole in zip(reversed(own), reversed(node.outs[0].dims), strict=False):
                plain = all(_PRODUCT.fullmatch(str(dim)) for dim in (one, whole))
                if isinstance(one, str) and isinstance(whole, str) and one != whole and not plain:
                    yield one, whole


def _seen_as(own: tuple[Dim, ...], seen: tuple[Dim, ...]) -> Iterator[tuple[str, str]]:
    """One size that a view has as so many times another, all others being the same: rows of a gather that are
    seen as eight for each token."""
    left, right = (Counter(one) - Counter(other) for one, other in ((own, seen), (seen, own)))
    for whole, parts in ((left, right), (right, left)):
        symbols = [dim for dim in parts.elements() if isinstance(dim, str)]
        times = prod(dim for dim in parts.elements() if isinstance(dim, int))
        longer = [dim for dim in whole.elements() if dim != 1]
        names = [dim for dim in (*symbols, *longer) if isinstance(dim, str) and _NAME.fullmatch(dim)]
        if len(longer) == len(symbols) == 1 and len(names) == 2 and times > 1:
            yield f"{times}*{symbols[0]}", names[1]


def _matching(problem: Problem, one: str, other: str) -> dict[str, tuple[int, str]]:
    """Symbols of one size by how many of which of the other's make both the same; else none."""
    left, right = (list(dict.fromkeys(_SYMBOL.findall(text))) for text in (one, other))
    if set(left) & set(right) or len(left) != len(right):
        return {}
    found: dict[str, tuple[int, str]] = {}
    for symbol in right:
        equal = [s for s in left if (1, s) not in found.values() and _times(problem, symbol, s) == 1]
        if equal:
            found[symbol] = 1, equal[0]
    if len(left) == 1 and not found:
        for long, short in ((*left, *right), (*right, *left)):
            if times := _times(problem, long, short):
                found[long] = times, short
    if len(found) < len(left):
        return {}
    same = all(size_of(one, point) == size_of(other, point) for point in _points(found))
    return found if same else {}


def _times(problem: Problem, long: str, short: str) -> int:
    """How often one size is another in every declared case; 0 where it is not, or not always as often."""
    sizes = [case.size_map for case in problem.cases]
    times = {divmod(one[long], one[short]) for one in sizes if one[short]}
    quotient, rest = times.pop() if len(times) == 1 else (0, 0)
    return 0 if rest else quotient


def _points(matched: Mapping[str, tuple[int, str]]) -> Iterator[dict[str, int]]:
    """Sizes at which all that are matched agree."""
    for turn in range(_POINTS):
        sizes = {short: 7 + 5 * turn + 3 * place for place, (_, short) in enumerate(matched.values())}
        yield sizes | {long: times * sizes[short] for long, (times, short) in matched.items()}
