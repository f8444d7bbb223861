"""Rows of few elements in order: ``sort`` as a network of comparators, each a minimum and a maximum.

Which two elements a network compares next does not depend on what it found before: there is no loop and no
branch, a thread keeps the row in registers, and what nobody reads of the result is never compared. Where
places are asked for as well, they are the lower half of each word that is compared (words.py), which keeps
equal elements in their order. Owns the rule; K. E. Batcher, Sorting networks and their applications, AFIPS
1968, has the network.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model import OpNode, OutputSpec, Ref
from workbench.playbook.graph.few_largest import argument
from workbench.playbook.graph.graph_edit import RESULTS, GraphEdit
from workbench.playbook.graph.words import Words
from workbench.problem.few_axes import SORTED

_WIDE = ("f64", "i64")
"""Types of which a word of 64 bits has no room for a place."""


def few_in_order(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``sort`` along an axis of up to ``SORTED`` elements; NaN is the largest, as in torch."""
    if node.base_name != "sort" or not isinstance(node.args[0], Ref):
        return None
    x = node.args[0]
    spec, named = edit.spec(x), dict(node.kwargs)
    first = 1 if node.op == "aten.sort.default" else len(node.args)  # aten.sort.stable takes all by name
    axis = argument(node, named, first, "dim", -1)
    descending = argument(node, named, first + 1, "descending", False)
    if not isinstance(axis, int) or not isinstance(descending, bool) or not spec.dims:
        return None
    axis %= len(spec.dims)
    count, placed = spec.dims[axis], edit.is_read(node, 1)
    if not isinstance(count, int) or not 1 < count <= SORTED or spec.dtype in ("f64", "bool"):
        return None
    if placed and spec.dtype in _WIDE:
        return None
    words = Words(edit, spec.dtype, later_wins=not descending)
    one = (*spec.dims[:axis], *spec.dims[axis + 1 :])
    taken = OutputSpec(dtype=spec.dtype, dims=one)
    elements = [edit.add("aten.select.int", (x, axis, at), taken, "element") for at in range(count)]
    if placed:
        keys = [
            words.with_places(each, edit.scalar(at, "i32"), one_zero=True) for at, each in enumerate(elements)
        ]
    else:
        keys = [words.keys(each) for each in elements]
    for low, high in network(count):
        keys[low], keys[high] = _compared(words, keys[low], keys[high])
    if descending:
        keys.reverse()
    dims = (*spec.dims[:axis], 1, *spec.dims[axis + 1 :])
    element = words.value if placed else words.element
    results = [[element(key) for key in keys]]
    if placed:
        results.append([edit.converted(words.place(key), "i64") for key in keys])
    args = tuple(words.beside(tuple(edit.view(one, dims) for one in parts), axis) for parts in results)
    return node.model_copy(update={"op": RESULTS, "args": args, "kwargs": ()})


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
