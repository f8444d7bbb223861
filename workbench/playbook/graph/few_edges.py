"""Places among few sorted edges, found where they are wanted: one comparison for each halving.

A codebook of 255 boundaries, the borders of age groups: ``bucketize`` and ``searchsorted`` are the library's,
which wants its numbers written and leaves eight bytes for each. Eight comparisons, each with an edge whose
place the one before has told, are done in the kernel that has the number. Owns the rule.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of

MOST_EDGES = 2**12
"""Edges up to which a search of halves is written out: twelve steps, of which the first edges stay in L1."""
_OPS = {"aten.bucketize.Tensor": (1, 0), "aten.searchsorted.Tensor": (0, 1)}
"""Positions of the edges and of what is looked for."""
_PLACE: DType = "i32"


def few_edges(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A place among edges whose number is known, in one row of them or in one for each row of values."""
    found = _asked(edit, node)
    if found is None:
        return None
    edges, values, right = found
    dims, count = edit.spec(values).dims, edit.spec(edges).dims[-1]
    assert isinstance(count, int)
    place: Ref | None = None
    while count > 1:
        half = count // 2
        step = _passed(edit, _edge(edit, edges, place, half - 1, dims), values, right)
        step = edit.add("aten.mul.Tensor", (step, half), OutputSpec(dtype=_PLACE, dims=dims), "half")
        place = step if place is None else _added(edit, place, step, dims)
        count -= half
    last = _passed(edit, _edge(edit, edges, place, 0, dims), values, right)
    whole = last if place is None else _added(edit, place, last, dims)
    wide = edit.converted(whole, node.outs[0].dtype)
    return node.model_copy(update={"op": "aten.view.default", "args": (wide, shape_of(dims)), "kwargs": ()})


def _asked(edit: GraphEdit, node: OpNode) -> tuple[Ref, Ref, bool] | None:
    """Edges, values, and whether a value that is an edge lies behind it; None for any other node."""
    if node.op not in _OPS:
        return None
    edges, values = (node.args[position] for position in _OPS[node.op])
    asked = dict(node.kwargs)
    if not (isinstance(edges, Ref) and isinstance(values, Ref)) or asked.get("sorter") is not None:
        return None
    rows, dims = edit.spec(edges), edit.spec(values).dims
    count = rows.dims[-1] if rows.dims else 0
    alone = len(rows.dims) == 1
    if not isinstance(count, int) or not 0 < count <= MOST_EDGES or rows.dtype != edit.spec(values).dtype:
        return None
    if not alone and rows.dims[:-1] != dims[:-1]:
        return None
    return edges, values, bool(asked.get("right")) or asked.get("side") == "right"


def _edge(edit: GraphEdit, edges: Ref, place: Ref | None, further: int, dims: tuple[Dim, ...]) -> Ref:
    """The edge so many behind a place; the same for all values of a row where no place is known yet."""
    spec = edit.spec(edges)
    axis = len(spec.dims) - 1
    if place is None:
        one = OutputSpec(dtype=spec.dtype, dims=spec.dims[:-1])
        first = edit.add("aten.select.int", (edges, axis, further), one, "edge")
        return first if axis == 0 else edit.view(first, (*spec.dims[:-1], 1))
    at = place
    if further:
        at = edit.add("aten.add.Tensor", (place, further), OutputSpec(dtype=_PLACE, dims=dims), "place")
    found = OutputSpec(dtype=spec.dtype, dims=dims)
    if axis == 0:
        return edit.add("aten.index.Tensor", (edges, (at,)), found, "edge")
    return edit.add("aten.gather.default", (edges, axis, edit.converted(at, "i64")), found, "edge")


def _passed(edit: GraphEdit, edge: Ref, values: Ref, right: bool) -> Ref:
    """1 where a value lies behind an edge, or is NaN, which torch looks for behind the last."""
    dims = edit.spec(values).dims
    args: tuple[Arg, ...] = (edge, values)
    before = edit.add(
        f"aten.{'gt' if right else 'ge'}.Tensor", args, OutputSpec(dtype="bool", dims=dims), "before"
    )
    behind = edit.add("aten.logical_not.default", (before,), OutputSpec(dtype="bool", dims=dims), "behind")
    return edit.converted(behind, _PLACE)


def _added(edit: GraphEdit, place: Ref, step: Ref, dims: tuple[Dim, ...]) -> Ref:
    return edit.add("aten.add.Tensor", (place, step), OutputSpec(dtype=_PLACE, dims=dims), "place")
