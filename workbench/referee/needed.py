"""How far along each axis results depend on a tensor: of tokens that are all normalised, the first of each.

Owns the walk from the results back to the arguments. What it gives is no more than what is needed: where
several readers want different parts it is the largest of these. Knows slices, operations of elements,
reductions and products of matrices; of others it says that it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.model import Case, Problem, Ref
from workbench.problem.components import REDUCTIONS, reduced_axes
from workbench.referee.work import EXTERNAL, FREE, LOOKUPS, Sized, readers_of, sized

Extents = tuple[int, ...]
_SLICES = frozenset(("slice", "narrow"))
_PARTS = frozenset(("split", "split_with_sizes", "unbind", "chunk", "diagonal", "as_strided"))
_SAME = frozenset(("alias", "detach", "clone", "convert_element_type", "lift_fresh_copy"))
_VIEWS = frozenset(("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze"))


_PRODUCTS = frozenset(("mm", "bmm", "addmm"))


class _Merged(int):
    """How far along an axis that several are merged to, which remembers how far along each of these."""

    sizes: Extents
    extents: Extents

    @classmethod
    def of(cls, sizes: Extents, extents: Extents) -> _Merged:
        """Of axes of these sizes, so far along each."""
        merged = cls(math.prod(extents))
        merged.sizes, merged.extents = sizes, extents
        return merged


@dataclass(frozen=True)
class Part:
    """Of a tensor: so far along each axis at least, and so many elements if no two readers want the same."""

    extents: Extents
    most: int

    @property
    def least(self) -> int:
        """Elements that are needed in any case."""
        return math.prod(self.extents)


Parts = Mapping[str, Part | None]


def restricted(problem: Problem, case: Case) -> Parts:
    """Arguments and results that no reader wants the whole of; None where less may be needed and nobody knows
    how much. All of what is not named."""
    nodes = sized(problem, case)
    readers, returned = readers_of(nodes), {ref.ref for ref in problem.graph.outputs}
    shapes = {name: meta.shape for name, meta in problem.metas(case).items()}
    shapes.update((one.node.name, one.output) for one in nodes if len(one.node.outs) == 1)
    found: dict[str, Part | None] = {}
    for name, shape in reversed(shapes.items()):
        if name in returned or not readers.get(name):
            continue
        wanted = [_demand(name, shape, one, found) for one in readers[name]]
        known = [one for one in wanted if one is not None]
        if any(one.least == math.prod(shape) for one in known):
            continue
        if len(known) < len(wanted):
            found[name] = None
            continue
        apart = {(one, _place(by)): one.most for one, by in zip(known, readers[name], strict=True)}
        most = min(sum(apart.values()), math.prod(shape))
        found[name] = Part(max(known, key=lambda one: one.least).extents, most)
    return found


def _place(reader: Sized) -> str:
    """By name a node that shows a part of its operand: halves are as large as each other."""
    return reader.node.name if reader.name in _SLICES | {"select"} else ""


def _demand(name: str, shape: Extents, reader: Sized, found: Parts) -> Part | None:
    """What one reader wants of a tensor, for what is wanted of it."""
    part = found.get(reader.node.name, Part(reader.output, 0))
    extents = None if part is None else _along(name, shape, reader, part.extents)
    if part is None or extents is None:
        return None
    return Part(extents, max(math.prod(extents), part.most if shape == reader.output else 0))


def _along(name: str, shape: Extents, reader: Sized, wanted: Extents) -> Extents | None:
    """How far along each axis one reader wants a tensor, for how far its result is wanted."""
    node, op, result = reader.node, reader.name, reader.output
    is_first = bool(node.args) and node.args[0] == Ref(ref=name)
    if op in _SLICES | {"select"}:
        at = node.args[1] if len(node.args) > 1 else 0
        axis = at % len(shape) if isinstance(at, int) and shape else 0
        return (*wanted[:axis], 1, *wanted[axis:]) if op == "select" else wanted
    if op in LOOKUPS | _PARTS and is_first:
        return None
    if wanted == result:
        return shape
    if op in REDUCTIONS and is_first:
        return _of_reduced(reader, shape, wanted)
    if op == "permute" and isinstance(node.args[1], tuple):
        order = [axis % len(shape) for axis in node.args[1] if isinstance(axis, int)]
        return tuple(wanted[order.index(axis)] for axis in range(len(shape)))
    if op in _VIEWS:
        return _of_viewed(shape, result, wanted)
    if op in _PRODUCTS and Ref(ref=name) in node.args[-2:]:
        *batch, rows, columns = wanted
        left, right = node.args[-2:]
        is_left = left == Ref(ref=name)
        if left == right:
            return None
        return (*batch, rows, shape[-1]) if is_left else (*batch, shape[-2], columns)
    others = FREE | EXTERNAL | LOOKUPS | _PARTS | REDUCTIONS
    if op not in others or op in _SAME or op == "expand":
        lacks = len(result) - len(shape)
        fits = lacks >= 0 and all(a in (1, b) for a, b in zip(shape, result[lacks:], strict=True))
        return tuple(min(a, b) for a, b in zip(shape, wanted[lacks:], strict=True)) if fits else None
    return None


def _of_viewed(shape: Extents, result: Extents, wanted: Extents) -> Extents | None:
    """The same of what is viewed in another shape: axes that are merged, those that were merged before."""
    found = [1] * len(shape)
    before = [axis for axis, size in enumerate(shape) if size != 1]
    after = [axis for axis, size in enumerate(result) if size != 1]
    while before and after:
        ours, theirs = [before.pop(0)], [after.pop(0)]
        while (own := math.prod(shape[axis] for axis in ours)) != (
            other := math.prod(result[axis] for axis in theirs)
        ):
            longer, rest = (theirs, after) if own > other else (ours, before)
            if not rest:
                return None
            longer.append(rest.pop(0))
        sizes, whole = [tuple(shape[axis] for axis in ours), tuple(result[axis] for axis in theirs)]
        extents = tuple(wanted[axis] for axis in theirs)
        if extents == whole:
            own_extents: Extents = sizes
        elif sizes == whole:
            own_extents = extents
        elif len(sizes) == 1:
            own_extents = (_Merged.of(whole, extents),)
        elif isinstance(extents[0], _Merged) and extents[0].sizes == sizes:
            own_extents = extents[0].extents
        else:
            return None
        for axis, extent in zip(ours, own_extents, strict=True):
            found[axis] = extent
    return tuple(found)


def _of_reduced(reader: Sized, shape: Extents, wanted: Extents) -> Extents | None:
    """All along the axes that are reduced, and what is wanted along the others."""
    reduced = set(reduced_axes(reader.node, len(shape)))
    if len(reader.output) == len(shape):
        return tuple(size if axis in reduced else wanted[axis] for axis, size in enumerate(shape))
    if len(reader.output) != len(shape) - len(reduced):
        return None
    left = iter(wanted)
    return tuple(size if axis in reduced else next(left) for axis, size in enumerate(shape))
