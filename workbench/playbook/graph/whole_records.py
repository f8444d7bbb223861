"""Results with a small matrix a row, or a few numbers: a thread makes all of them.

The covariance of a filter, the corners of a box and the coefficients of a curve are a few numbers for each of
very many, and most of what one of them is made of goes into the others as well. Owns which results those are;
elements.py finds what each of their elements is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from workbench.model import Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.elements import Elements, Places
from workbench.playbook.graph.graph_edit import RECORD, GraphEdit
from workbench.playbook.ir.operations import VIEWS, is_pointwise

MOST_ELEMENTS = 32
"""Of a record: a thread has all in registers before it writes them."""
MOST_STEPS = 1200
"""Operations to make all elements of a result: what a thread's code is, without a loop (a guess)."""
_AS_IT_LIES = VIEWS | {
    "flip", "cat", "stack", "repeat", "copy", "gather", "index_select", "embedding", "index", "_unsafe_index",
    "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "scalar_tensor", "arange", "iota",
}  # fmt: skip
"""What may be read, looked up or counted where arithmetic begins. A row that is summed up or scanned has
threads of its own, which make its few elements with what they know of it."""
OFTEN = 1.5
"""How many times as much threads compute that have an element each, for it to be worth anything (a guess)."""


def whole_records(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A result of few elements a row that have much in common, joined of these."""
    axes = _records(edit).get(node.name)
    if axes is None:
        return None
    dims, order = node.outs[0].dims, edit.orders[node.name]
    first = order.index(axes[0])
    before, behind = ([dims[axis] for axis in some] for some in (order[:first], order[first + len(axes) :]))
    left = [axis for axis in range(len(dims)) if axis not in axes]
    turned = tuple(left.index(axis) for axis in order if axis not in axes)
    parts = []
    for places in _places(dims, axes):
        element = _elements(edit).at(Ref(ref=node.name), places)
        assert element is not None
        parts.append(edit.view(edit.permuted(element, turned), (*before, 1, *behind)))
    out = OutputSpec(dtype=node.outs[0].dtype, dims=(*before, len(parts), *behind))
    joined = edit.add(RECORD, (tuple(parts), first), out)
    laid = edit.view(joined, tuple(dims[axis] for axis in order))
    back = tuple(order.index(axis) for axis in range(len(dims)))
    changed = {"op": "aten.permute.default", "args": (laid, back), "kwargs": ()}
    if order == back == tuple(range(len(dims))):
        changed = {"op": "aten.alias.default", "args": (laid,), "kwargs": ()}
    return node.model_copy(update=changed)


@lru_cache(maxsize=1)
def _elements(edit: GraphEdit) -> Elements:
    return Elements(edit, everything=True)


@lru_cache(maxsize=1)
def _records(edit: GraphEdit) -> Mapping[str, Sequence[int]]:
    """Results by name, and their axes of few elements, side by side."""
    tried = edit.again()
    elements = Elements(tried, everything=True)
    found = dict[str, _Record]()
    for ref in dict.fromkeys(edit.graph.outputs):
        node = edit.made(ref)
        ways = _few_axes(edit.spec(ref).dims) if node is not None and node.name == ref.ref else []
        ways = [axes for axes in ways if _lie_together(axes, edit.orders[ref.ref])]
        tries = [_tried(tried, elements, ref, axes) for axes in ways]
        if records := [record for record in tries if record is not None]:
            found[ref.ref] = max(records, key=lambda record: record.in_common)
    worth = [record.together for record in found.values() if record.in_common > OFTEN]
    there = frozenset[str]().union(*worth)
    # What makes most of a record anyway has the rest of it too.
    return {
        name: record.axes
        for name, record in found.items()
        if 2 * len(record.together & there) > len(record.together)
    }


@dataclass(frozen=True)
class _Record:
    """A result of few elements a row along ``axes``."""

    axes: Sequence[int]
    each: int
    """Operations of all its elements, where each is made by itself."""
    together: frozenset[str]
    """Those of all, each once."""

    @property
    def in_common(self) -> float:
        """How many times operations are done where each element is made by itself."""
        return self.each / max(1, len(self.together))


def _tried(edit: GraphEdit, elements: Elements, ref: Ref, axes: Sequence[int]) -> _Record | None:
    """None where it is made by too many operations, or of what somebody else makes."""
    each, together = 0, frozenset[str]()
    for places in _places(edit.spec(ref).dims, axes):
        element = elements.at(ref, places)
        assert element is not None
        made = _made_of(edit.added, element)
        if any(
            node is not None and node.base_name not in _AS_IT_LIES for node in map(edit.made, made.begins)
        ):
            return None
        each += len(made.steps)
        together |= made.steps
        if len(together) > MOST_STEPS:
            return None
    return _Record(axes, each, together)


def _few_axes(dims: Sequence[Dim]) -> list[Sequence[int]]:
    """The last ones, and each other that is short: what may be a record. One axis is left."""
    few = [axis for axis, dim in enumerate(dims) if isinstance(dim, int) and 1 < dim <= MOST_ELEMENTS]
    last = len(dims)
    while last > 1 and (last - 1 in few or dims[last - 1] == 1) and _count(dims[last - 1 :]) <= MOST_ELEMENTS:
        last -= 1
    ways = [range(last, len(dims)), *([axis] for axis in few if 0 < axis < last)]
    return [axes for axes in ways if _count(dims[axis] for axis in axes) > 1]


def _lie_together(axes: Sequence[int], order: Sequence[int]) -> bool:
    first = order.index(axes[0])
    return tuple(order[first : first + len(axes)]) == tuple(axes)


def _count(dims: Iterable[Dim]) -> int:
    return prod(dim for dim in dims if isinstance(dim, int))


def _places(dims: Sequence[Dim], axes: Sequence[int]) -> Iterable[Places]:
    """All of a record, in the order in which they lie."""
    along = [range(int(dim)) if axis in axes else (None,) for axis, dim in enumerate(dims)]
    return product(*along)


@dataclass(frozen=True)
class _MadeOf:
    """What an element is made of."""

    steps: frozenset[str]
    """Operations, but for those on single numbers, which are alike for all rows."""
    begins: frozenset[Ref]
    """Tensors that it begins with."""


def _made_of(added: Mapping[str, OpNode], ref: Ref) -> _MadeOf:
    steps, begins, seen, pending = set[str](), set[Ref](), set[Ref](), [ref]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        node = added.get(one.ref)
        if node is None:
            begins.add(one)
            continue
        pending += node.refs
        if is_pointwise(node) and not _is_single(node):
            steps.add(one.ref)
    return _MadeOf(frozenset(steps), frozenset(begins))


def _is_single(node: OpNode) -> bool:
    return all(dim == 1 for dim in node.outs[0].dims)
