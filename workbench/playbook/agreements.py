"""Sizes that meet in one operation and are written differently: a plan must ask whether they are equal.

The halves of a row that is cut in two are as long as each other only where its length is even. The reference
refuses other lengths as it runs; a kernel would read beyond the shorter half. Owns which sizes these are, and
how a plan spells them; never writes a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from workbench.model import Arg, Dim, Problem, Ref, size_of
from workbench.playbook.operations import is_pointwise

_POINTS = 12
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def agreements(problem: Problem, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of sizes that must be equal, in the plan language; ``names`` are the symbols' in the plan."""
    return [(_spelt(one, names), _spelt(other, names)) for one, other in _pairs(problem)]


def _spelt(dim: Dim, names: Mapping[str, str]) -> str:
    """A size as the graph has it: by its value, another spelling would do."""
    return re.sub(r"[A-Za-z_]\w*", lambda found: names[found.group()], str(dim)).replace("//", " // ")


def _pairs(problem: Problem) -> tuple[tuple[Dim, Dim], ...]:
    """Sizes that pointwise operations take for equal, and that are not equal whatever the sizes."""
    dims: dict[Ref, tuple[Dim, ...]] = {Ref(ref=spec.name): spec.dims for spec in problem.tensors}
    for node in problem.graph.nodes:
        for item, out in enumerate(node.outs):
            dims[Ref(ref=node.name, item=item)] = out.dims
        dims[Ref(ref=node.name)] = node.outs[0].dims
    points = list(_points(problem.symbols))
    found: dict[tuple[Dim, Dim], None] = {}
    for node in filter(is_pointwise, problem.graph.nodes):
        for ref in _refs(node.args):
            for own, wide in zip(reversed(dims[ref]), reversed(node.outs[0].dims), strict=False):
                if own not in (wide, 1) and not all(_agree(own, wide, point) for point in points):
                    found[own, wide] = None
    return tuple(pair for pair in found if pair[::-1] not in found or str(pair[0]) < str(pair[1]))


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


def _refs(arg: Arg) -> Iterator[Ref]:
    if isinstance(arg, tuple):
        for item in arg:
            yield from _refs(item)
    elif isinstance(arg, Ref):
        yield arg
