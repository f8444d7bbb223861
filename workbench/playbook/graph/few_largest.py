"""The few largest elements of a row, or smallest, one after the other: ``topk`` with a small k as reductions.

An element and its place are one whole number (words.py), so that a maximum finds both. What has been found is
left out by its place, not by its size: a kernel that computes a row anew in each pass may round it another
way, and finds no element twice. Of a long row's pieces each has its few largest, and the row's are among
these: many blocks share a row, and none keeps more of it than its registers hold. rewrites.py has the rule's
name.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref, Sym, size_of
from workbench.playbook.graph.graph_edit import RESULTS, GraphEdit, argument, shape_of
from workbench.playbook.graph.words import Words
from workbench.playbook.ir.operations import is_float

MOST = 16
"""Elements that are found so: a pass over the row for each (a guess)."""
PIECE, LONG = 2048, 4096
"""Elements of a piece, and of the longest row that is not cut in pieces. Of rows of 50257 that blocks of 1024
threads keep whole, ten maxima take an H100 138 us: 49 elements a thread, ten times written out."""
_BEHIND = {True: 1 - 2**63, False: 2**63 - 1}
"""The word of what has been found, of the largest and of the smallest."""


def few_largest(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``topk(x, k)`` along any axis; of floats, whose NaN counts as the largest, as in torch."""
    if node.base_name != "topk" or not isinstance(node.args[0], Ref):
        return None
    named = dict(node.kwargs)
    count = argument(node, named, 1, "k", None)
    largest = argument(node, named, 3, "largest", True)
    spec = edit.spec(node.args[0])
    if not isinstance(count, int) or not 1 <= count <= MOST or not isinstance(largest, bool):
        return None
    if not is_float(spec.dtype) or spec.dtype == "f64" or not spec.dims:
        return None
    axis = argument(node, named, 2, "dim", -1)
    assert isinstance(axis, int)
    values, places = _Search(edit, spec, axis % len(spec.dims), largest).found(node.args[0], count)
    return node.model_copy(update={"op": RESULTS, "args": (values, places), "kwargs": ()})


class _Search:
    """Nodes that look for the largest elements along ``axis`` of a tensor, or the smallest."""

    def __init__(self, edit: GraphEdit, spec: OutputSpec, axis: int, largest: bool) -> None:
        self._edit = edit
        self._dtype = spec.dtype
        self._words = Words(edit, spec.dtype, later_wins=not largest)
        self._dims = spec.dims
        self._axis = axis
        self._best = "amax.default" if largest else "amin.default"
        self._largest = largest
        self._behind = edit.scalar(_BEHIND[largest], "i64")

    def found(self, x: Ref, count: int) -> tuple[Ref, Ref]:
        """Values and places, the largest first, or the smallest."""
        whole = self._dims[self._axis]
        if self._fewest(whole) <= LONG:
            words = self._by_place(x, self._counted(), self._axis, count)
        else:
            words = self._by_size(self._of_pieces(x, whole, count), count)
        values = tuple(self._words.value(word) for word in words)
        places = tuple(self._edit.converted(self._words.place(word), "i64") for word in words)
        return self._words.beside(values, self._axis), self._words.beside(places, self._axis)

    def _of_pieces(self, x: Ref, whole: Dim, count: int) -> Ref:
        """The words of a line's pieces, so many of each.

        Behind its end a line goes on with its last element, at the last place: what has been found once is
        left out there too.
        """
        pieces = -(-whole // PIECE) if isinstance(whole, int) else f"({whole}+{PIECE - 1})//{PIECE}"
        end = pieces * PIECE if isinstance(pieces, int) else f"{PIECE}*({pieces})"
        last: Arg = whole - 1 if isinstance(whole, int) else Sym(sym=f"({whole})-1")
        before, behind = self._dims[: self._axis], self._dims[self._axis + 1 :]
        line = self._add("arange.start_step", (0, *shape_of((end,))), (end,), "i32")
        line = self._add("clamp.default", (line, None, last), (end,), "i32")
        x = self._add("index_select.default", (x, self._axis, line), (*before, end, *behind), self._dtype)
        x = self._edit.view(x, (*before, pieces, PIECE, *behind))
        places = self._edit.view(line, (pieces, PIECE, *(1,) * len(behind)))
        found = self._words.beside(self._by_place(x, places, self._axis + 1, count), self._axis + 1)
        number = count * pieces if isinstance(pieces, int) else f"{count}*({pieces})"
        return self._edit.view(found, (*before, number, *behind))

    def _by_place(self, x: Ref, places: Ref, axis: int, count: int) -> tuple[Ref, ...]:
        """The largest words along an axis; what has been found is left out by its place."""
        words, taken = list[Ref](), None
        line = left = self._words.with_places(x, places)
        dims = self._edit.spec(line).dims
        for _ in range(count):
            words.append(self._maximum(left, axis))
            here = self._add("eq.Tensor", (places, self._words.place(words[-1])), dims, "bool")
            taken = here if taken is None else self._add("bitwise_or.Tensor", (taken, here), dims, "bool")
            left = self._add("where.self", (taken, self._behind, line), dims)
        return tuple(words)

    def _by_size(self, line: Ref, count: int) -> tuple[Ref, ...]:
        """The same of words in memory: nothing rounds them, and a comparison leaves out what was found."""
        words, left = list[Ref](), line
        dims = self._edit.spec(line).dims
        for _ in range(count):
            words.append(self._maximum(left, self._axis))
            further = self._add(
                "lt.Tensor" if self._largest else "gt.Tensor", (line, words[-1]), dims, "bool"
            )
            left = self._add("where.self", (further, line, self._behind), dims)
        return tuple(words)

    def _maximum(self, line: Ref, axis: int) -> Ref:
        dims = self._edit.spec(line).dims
        return self._add(self._best, (line, (axis,), True), (*dims[:axis], 1, *dims[axis + 1 :]))

    # -------------------------------------------------------------------------------- nodes

    def _fewest(self, dim: Dim) -> int:
        """The size in the case that has the least."""
        return min(size_of(dim, sizes) for sizes in self._edit.cases)

    def _counted(self) -> Ref:
        """The places along the axis, ready to be broadcast."""
        size = self._dims[self._axis]
        line = self._add("arange.start_step", (0, *shape_of((size,))), (size,), "i32")
        behind = len(self._dims) - 1 - self._axis
        return line if not behind else self._edit.view(line, (size, *(1,) * behind))

    def _add(self, op: str, args: tuple[Arg, ...], dims: tuple[Dim, ...], dtype: DType = "i64") -> Ref:
        return self._words.add(op, args, dims, dtype)
