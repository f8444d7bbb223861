"""Rows that are put at places which data names, as a gather: each place asks which row was put there last.

Owns which operations those are; rewrites.py has the rule's name. Keys and values go to their slots of a
cache, and the rest of it stays: ``cache[slots] = rows``. A row's number is put at its slot, the greatest
where several name one, and the result is written once, each element from its row or from the cache. So
whoever reads next reads it in the same kernel, values of 16 bits, which no atomics take, can be put too, and
what comes of two rows for one slot is the last of them, as on a CPU; torch leaves open which.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.sizes import product
from workbench.problem.meeting_sizes import met_by

_WHOLE = ("i64", "i32")


def last_written(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``index_put`` that replaces, by whole numbers along neighbouring axes."""
    if node.op != "aten.index_put.default" or (len(node.args) > 3 and node.args[3]):
        return None
    into, given, value = node.args[:3]
    if not isinstance(into, Ref) or not isinstance(value, Ref) or not isinstance(given, tuple):
        return None
    axes = [axis for axis, one in enumerate(given) if one is not None]
    indices = [one for one in given if isinstance(one, Ref)]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)) or len(indices) != len(axes):
        return None
    if any(edit.spec(one).dtype not in _WHOLE or not edit.spec(one).dims for one in indices):
        return None
    dims = edit.spec(into).dims
    common = met_by([edit.spec(one).dims for one in indices])
    before, placed, after = dims[: axes[0]], dims[axes[0] : axes[-1] + 1], dims[axes[-1] + 1 :]
    places, count = _times(edit, placed), _times(edit, common)
    if count == 0 or 0 in edit.spec(value).dims:  # nothing is put
        return node.model_copy(
            update={"op": "aten.view.default", "args": (into, shape_of(dims)), "kwargs": ()}
        )
    last = _last(edit, _one_index(edit, indices, placed, common, count), places, count)
    if edit.constant(value) is None:
        put = _rows(edit, value, (before, common, after), count)
        first = edit.add("aten.clamp.default", (last, 0), edit.spec(last), "row")
        out = OutputSpec(dtype=node.outs[0].dtype, dims=(*before, places, *after))
        found: tuple[Arg, ...] = (*(None for _ in before), first)
        value = edit.view(edit.add("aten.index.Tensor", (put, found), out, "put"), dims)
    there = edit.add("aten.ge.Scalar", (last, 0), OutputSpec(dtype="bool", dims=(places,)), "is_put")
    there = edit.view(there, (*placed, *(1 for _ in after)))
    return node.model_copy(update={"op": "aten.where.self", "args": (there, value, into), "kwargs": ()})


def _times(edit: GraphEdit, dims: tuple[Dim, ...]) -> Dim:
    """How many elements there are."""
    if len(dims) == 1:
        return dims[0]
    size = product(edit.sizes.shape(dims))
    return size.text if size.number is None else size.number


def _one_index(
    edit: GraphEdit, indices: list[Ref], placed: tuple[Dim, ...], common: tuple[Dim, ...], count: Dim
) -> Ref:
    """Where each value goes, counted along all the axes that are indexed together."""
    total: Ref | None = None
    for index, size in zip(indices, placed, strict=True):
        spec = OutputSpec(dtype="i64", dims=edit.spec(index).dims)
        index = edit.converted(index, "i64")
        (length,) = shape_of((size,))
        counted = edit.add("aten.add.Tensor", (index, length), spec, "from_the_end")
        negative = edit.add("aten.lt.Scalar", (index, 0), OutputSpec(dtype="bool", dims=spec.dims), "is_less")
        index = edit.add("aten.where.self", (negative, counted, index), spec, "place")
        if spec.dims != common:
            spec = OutputSpec(dtype="i64", dims=common)
            index = edit.add("aten.expand.default", (index, shape_of(common)), spec, "places")
        if total is not None:
            rows = edit.add("aten.mul.Tensor", (total, length), spec, "rows")
            index = edit.add("aten.add.Tensor", (rows, index), spec, "place")
        total = index
    assert total is not None
    return total if len(common) == 1 else edit.view(total, (count,))


def _last(edit: GraphEdit, index: Ref, places: Dim, count: Dim) -> Ref:
    """The last value that goes to each place; -1 where none does."""
    spec = OutputSpec(dtype="i64", dims=(places,))
    nobody = edit.add("aten.full.default", (shape_of((places,)), -1), spec, "nobody")
    (end,) = shape_of((count,))
    number = edit.add("aten.arange.start_step", (0, end, 1), OutputSpec(dtype="i64", dims=(count,)), "number")
    return edit.add("aten.scatter_reduce.two", (nobody, 0, index, number, "amax"), spec, "last")


def _rows(edit: GraphEdit, value: Ref, shape: tuple[tuple[Dim, ...], ...], count: Dim) -> Ref:
    """The values, one for each index along one axis."""
    before, common, after = shape
    whole, spec = (*before, *common, *after), edit.spec(value)
    if spec.dims != whole:
        out = OutputSpec(dtype=spec.dtype, dims=whole)
        value = edit.add("aten.expand.default", (value, shape_of(whole)), out, "spread")
    return value if len(common) == 1 else edit.view(value, (*before, count, *after))
