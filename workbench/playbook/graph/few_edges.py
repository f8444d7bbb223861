"""Places among few sorted edges, found where they are wanted: one comparison for each halving.

A codebook of 255 boundaries, the borders of age groups: ``bucketize`` and ``searchsorted`` are the library's,
which wants its numbers written and leaves eight bytes for each. Eight comparisons, each with an edge whose
place the one before has told, are done in the kernel that has the number. Owns the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import WRITTEN, GraphEdit, shape_of

MOST_EDGES = 2**12
"""Edges up to which a search of halves is written out: twelve steps, of which the first edges stay in L1."""
MOST_AGAIN = 64
"""The same where each row has edges of its own, up to which a place is found again for each that reads it. Of
more edges, places are written: found again for each element, in a sum down 4096, a search took the kernel."""
_OPS = {"aten.bucketize.Tensor": (1, 0), "aten.searchsorted.Tensor": (0, 1)}
"""Positions of the edges and of what is looked for."""
_PLACE: DType = "i32"


def few_edges(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A place among edges whose number is known, in one row of them or in one for each row of values."""
    found = _asked(edit, node)
    if found is None:
        return None
    edges, values, right = found
    search = _Search(edit, edges, values, right, edit.spec(values).dims)
    place = search.place()
    count = edit.spec(edges).dims[-1]
    if len(edit.spec(edges).dims) > 1 and isinstance(count, int) and count > MOST_AGAIN:
        place = edit.add(WRITTEN, (place,), edit.spec(place), "place")
    wide = edit.converted(place, node.outs[0].dtype)
    shaped: tuple[Arg, ...] = (wide, shape_of(search.dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shaped, "kwargs": ()})


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


@dataclass(frozen=True)
class _Search:
    """The steps of torch's own search, which also says what it finds among edges that are not sorted."""

    edit: GraphEdit
    edges: Ref
    values: Ref
    right: bool
    dims: tuple[Dim, ...]
    """Of the values."""

    def place(self) -> Ref:
        """How many edges lie before each value."""
        count = self.edit.spec(self.edges).dims[-1]
        assert isinstance(count, int)
        whole = (count + 1).bit_count() == 1
        return self._by_equal_halves(count) if whole else self._by_ends(count)

    def _by_equal_halves(self, count: int) -> Ref:
        """Of one less than a power of two both halves are equally long: only the low end is asked."""
        low: Ref | None = None
        while count:
            half = count // 2
            behind = self._converted(self._behind(self._edge(low, half)))
            step = self._made("mul.Tensor", (behind, half + 1), "step")
            low = step if low is None else self._made("add.Tensor", (low, step), "place")
            count = half
        assert low is not None
        return low

    def _by_ends(self, count: int) -> Ref:
        half = count // 2
        behind = self._behind(self._edge(None, half))
        low = self._made("mul.Tensor", (self._converted(behind), half + 1), "low")
        high = self._chosen(behind, count, half)
        for _ in range(count.bit_length() - 1):
            middle = self._made("add.Tensor", (low, high), "middle")
            middle = self._made("bitwise_right_shift.Tensor_Scalar", (middle, 1), "middle")
            inside = self._made("clamp.default", (middle, None, count - 1), "middle")
            open_yet = self._made("lt.Tensor", (low, high), "open_yet", "bool")
            behind = self._behind(self._edge(inside, 0))
            behind = self._made("logical_and.default", (open_yet, behind), "behind", "bool")
            low = self._chosen(behind, self._made("add.Tensor", (middle, 1), "low"), low)
            high = self._chosen(behind, high, middle)
        return low

    def _edge(self, place: Ref | None, further: int) -> Ref:
        """The edge so many behind a place; the same for all values of a row where no place is known yet."""
        edit, spec = self.edit, self.edit.spec(self.edges)
        axis = len(spec.dims) - 1
        if place is None:
            one = OutputSpec(dtype=spec.dtype, dims=spec.dims[:-1])
            first = edit.add("aten.select.int", (self.edges, axis, further), one, "edge")
            return first if axis == 0 else edit.view(first, (*spec.dims[:-1], 1))
        at = self._made("add.Tensor", (place, further), "place") if further else place
        if axis == 0:
            return self._made("index.Tensor", (self.edges, (at,)), "edge", spec.dtype)
        return self._made("gather.default", (self.edges, axis, edit.converted(at, "i64")), "edge", spec.dtype)

    def _behind(self, edge: Ref) -> Ref:
        """Where a value lies behind an edge, or is NaN, which torch looks for behind the last."""
        before = self._made(f"{'gt' if self.right else 'ge'}.Tensor", (edge, self.values), "before", "bool")
        return self._made("logical_not.default", (before,), "behind", "bool")

    def _chosen(self, where: Ref, yes: Ref | int, no: Ref | int) -> Ref:
        return self._made("where.self", (where, *map(self._number, (yes, no))), "end")

    def _number(self, one: Ref | int) -> Ref:
        return self.edit.scalar(one, _PLACE) if isinstance(one, int) else one

    def _converted(self, one: Ref) -> Ref:
        return self.edit.converted(one, _PLACE)

    def _made(self, op: str, args: tuple[Arg, ...], stem: str, dtype: DType = _PLACE) -> Ref:
        return self.edit.add(f"aten.{op}", args, OutputSpec(dtype=dtype, dims=self.dims), stem)
