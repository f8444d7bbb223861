"""Rows of few elements in order: ``sort`` as a network of comparators, each a minimum and a maximum.

Which two elements a network compares next does not depend on what it found before: there is no loop and no
branch, a thread keeps the row in registers, and what nobody reads of the result is never compared. Where
places are asked for as well, they are the lower half of each word that is compared (words.py), which keeps
equal elements in their order. Owns the rule; K. E. Batcher, Sorting networks and their applications, AFIPS
1968, has the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from workbench.model import Arg, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import RESULTS, GraphEdit, argument
from workbench.playbook.graph.words import Words
from workbench.problem.components import REDUCTIONS
from workbench.problem.few_axes import MOST as TERMS
from workbench.problem.few_axes import SORTED, reduced_few


def few_in_order(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``sort`` along an axis of up to ``SORTED`` elements; ``topk`` of up to ``TERMS`` where no longer rows
    are reduced, whose kernel has them at hand. NaN is the largest, as in torch."""
    asked = _asked(edit, node)
    if asked is None:
        return None
    spec, axis = edit.spec(asked.x), asked.axis
    words = Words(edit, spec.dtype, later_wins=not asked.largest_first)
    one = OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], *spec.dims[axis + 1 :]))
    elements = [edit.add("aten.select.int", (asked.x, axis, at), one, "element") for at in range(asked.count)]
    keys = [
        words.with_places(element, edit.scalar(at, "i32"), one_zero=True)
        if asked.placed
        else words.keys(element)
        for at, element in enumerate(elements)
    ]
    for low, high in network(asked.count):
        keys[low], keys[high] = _compared(words, keys[low], keys[high])
    found = (keys[::-1] if asked.largest_first else keys)[: asked.wanted]
    results = [[words.value(key) if asked.placed else words.element(key) for key in found]]
    if asked.placed:
        results.append([edit.converted(words.place(key), "i64") for key in found])
    dims = (*spec.dims[:axis], 1, *spec.dims[axis + 1 :])
    args = tuple(words.beside(tuple(edit.view(each, dims) for each in parts), axis) for parts in results)
    return node.model_copy(update={"op": RESULTS, "args": args, "kwargs": ()})


@dataclass(frozen=True)
class _Asked:
    """``wanted`` of the ``count`` elements along ``axis``, and whether their places are."""

    x: Ref
    axis: int
    count: int
    wanted: int
    largest_first: bool
    placed: bool


def _asked(edit: GraphEdit, node: OpNode) -> _Asked | None:
    x, named = node.args[0] if node.args else None, dict(node.kwargs)
    if node.base_name not in ("sort", "topk") or not isinstance(x, Ref) or not edit.spec(x).dims:
        return None
    dims, dtype = edit.spec(x).dims, edit.spec(x).dtype
    wanted: Arg = None
    if node.base_name == "sort":
        first = 1 if node.op == "aten.sort.default" else len(node.args)  # aten.sort.stable takes all by name
        largest_first = argument(node, named, first + 1, "descending", False)
    else:
        first, wanted = 2, argument(node, named, 1, "k", None)
        largest_first = argument(node, named, 3, "largest", True)
    axis = argument(node, named, first, "dim", -1)
    assert isinstance(axis, int) and isinstance(largest_first, bool)
    axis %= len(dims)
    count, placed = dims[axis], edit.is_read(node, 1)
    if not isinstance(count, int) or not 1 < count <= (SORTED if node.base_name == "sort" else TERMS):
        return None
    if dtype in ("f64", "bool") or (placed and dtype == "i64"):  # which leaves no room for a place
        return None
    if node.base_name == "topk" and (not isinstance(wanted, int) or not wanted or _has_longer_rows(edit)):
        return None
    return _Asked(x, axis, count, wanted if isinstance(wanted, int) else count, largest_first, placed)


def _has_longer_rows(edit: GraphEdit) -> bool:
    reductions = sum(node.base_name in REDUCTIONS for node in edit.graph.nodes)
    return len(reduced_few(edit.graph, edit.given, edit.cases)) != reductions


def network(count: int) -> Iterator[tuple[int, int]]:
    """The comparators of Batcher's odd-even merge sort, of which each puts the smaller element first.

    For other sizes than powers of two it is that of the next: what would be compared with an element behind
    the end stays.
    """
    whole = 1 << (count - 1).bit_length()
    length = 1
    while length < whole:
        apart = length
        while apart >= 1:
            for start in range(apart % length, whole - apart, 2 * apart):
                for low in range(start, min(start + apart, whole - apart)):
                    high = low + apart
                    if low // (2 * length) == high // (2 * length) and high < count:
                        yield low, high
            apart //= 2
        length *= 2


def _compared(words: Words, one: Ref, other: Ref) -> tuple[Ref, Ref]:
    spec = words.edit.spec(one)
    return tuple(  # type: ignore[return-value]
        words.add(f"{name}.default", (one, other), spec.dims, spec.dtype) for name in ("minimum", "maximum")
    )
