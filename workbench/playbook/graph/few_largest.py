"""The few largest elements of a row, or smallest, one after the other: ``topk`` with a small k as reductions.

Owns how an element and its place become one whole number, so that a maximum finds both: the bits of a float,
turned so that they are in its order, above the place, turned so that the first of equals wins. What
has been found is left out by its place, not by its size: a kernel that computes a row anew in each pass may
round it another way, and finds no element twice. rewrites.py has the rule's name.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref, Sym
from workbench.playbook.graph.graph_edit import GraphEdit
from workbench.playbook.ir.operations import is_float

RESULTS = "workbench.results"
"""A node with several results, each of which another node makes."""
MOST = 16
"""Elements that are found so: a pass over the row for each (a guess)."""
_PLACES = 2**31 - 1
"""All bits of an int32 but the sign."""
_BEHIND = {True: 1 - 2**63, False: 2**63 - 1}
"""The word of what has been found, of the largest and of the smallest."""


def few_largest(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``topk(x, k)`` along any axis; of floats, whose NaN counts as the largest, as in torch."""
    if node.base_name != "topk" or not isinstance(node.args[0], Ref):
        return None
    named = dict(node.kwargs)
    count = _argument(node, named, 1, "k", None)
    largest = _argument(node, named, 3, "largest", True)
    spec = edit.spec(node.args[0])
    if not isinstance(count, int) or not 1 <= count <= MOST or not isinstance(largest, bool):
        return None
    if not is_float(spec.dtype) or spec.dtype == "f64" or not spec.dims:
        return None
    axis = _argument(node, named, 2, "dim", -1)
    assert isinstance(axis, int)
    values, places = _Search(edit, node.args[0], axis % len(spec.dims), largest).found(count)
    return node.model_copy(update={"op": RESULTS, "args": (values, places), "kwargs": ()})


def _argument(node: OpNode, named: dict[str, Arg], position: int, name: str, default: Arg) -> Arg:
    return node.args[position] if len(node.args) > position else named.get(name, default)


class _Search:
    """Nodes that look for the largest elements of ``x`` along ``axis``, or the smallest."""

    def __init__(self, edit: GraphEdit, x: Ref, axis: int, largest: bool) -> None:
        self._edit = edit
        self._largest = largest
        self._dtype = edit.spec(x).dtype
        self._dims = edit.spec(x).dims
        self._axis = axis
        self._one_each = tuple(1 if at == axis else dim for at, dim in enumerate(self._dims))
        self._places = self._counted()
        self._words = self._with_places(x)

    def found(self, count: int) -> tuple[Ref, Ref]:
        """Values and places, the largest first, or the smallest."""
        words, places, taken = list[Ref](), list[Ref](), None
        best = "amax.default" if self._largest else "amin.default"
        for _ in range(count):
            left = self._words if taken is None else self._without(taken)
            words.append(self._add(best, (left, (self._axis,), True), "i64", self._one_each))
            low = self._add("bitwise_and.Scalar", (words[-1], 2**32 - 1), "i64", self._one_each)
            places.append(self._first_wins(low))
            here = self._add("eq.Tensor", (self._places, places[-1]), "bool", self._dims)
            both = (taken, here)
            taken = here if taken is None else self._add("bitwise_or.Tensor", both, "bool", self._dims)
        dims = tuple(count if at == self._axis else dim for at, dim in enumerate(self._dims))
        values = tuple(self._value(word) for word in words)
        return self._beside(values, self._dtype, dims), self._beside(tuple(places), "i64", dims)

    # -------------------------------------------------------------------------------- words

    def _with_places(self, x: Ref) -> Ref:
        """Every element above its place."""
        dims = self._dims
        x = self._edit.converted(x, "f32")
        is_nan = self._add("isnan.default", (x,), "bool", dims)
        x = self._add("where.self", (is_nan, self._number(float("nan"), "f32"), x), "f32", dims)
        bits = self._add("view.dtype", (x, "i32"), "i32", dims)
        high = self._edit.converted(self._turned(bits, dims), "i64")
        high = self._add("__lshift__.Scalar", (high, 32), "i64", dims)
        low = self._first_wins(self._places)
        return self._add("bitwise_or.Tensor", (high, low), "i64", dims)

    def _first_wins(self, places: Ref) -> Ref:
        """Places as a word has them, and back: of equal elements the first is sought."""
        if not self._largest:
            return places
        return self._add("sub.Tensor", (_PLACES, places), "i64", self._edit.spec(places).dims)

    def _value(self, word: Ref) -> Ref:
        """The element of a word."""
        high = self._add("__rshift__.Scalar", (word, 32), "i64", self._one_each)
        bits = self._turned(self._edit.converted(high, "i32"), self._one_each)
        value = self._add("view.dtype", (bits, "f32"), "f32", self._one_each)
        return self._edit.converted(value, self._dtype)

    def _turned(self, bits: Ref, dims: tuple[Dim, ...]) -> Ref:
        """Bits of a float as a whole number in the float's order, and back: below zero all but the sign."""
        below = self._add("lt.Scalar", (bits, 0), "bool", dims)
        other = self._add("bitwise_xor.Scalar", (bits, _PLACES), "i32", dims)
        return self._add("where.self", (below, other, bits), "i32", dims)

    def _without(self, taken: Ref) -> Ref:
        behind = self._number(_BEHIND[self._largest], "i64")
        return self._add("where.self", (taken, behind, self._words), "i64", self._dims)

    # -------------------------------------------------------------------------------- nodes

    def _counted(self) -> Ref:
        """The places along the axis, ready to be broadcast."""
        size = self._dims[self._axis]
        end: Arg = Sym(sym=size) if isinstance(size, str) else size
        line = self._add("arange.start_step", (0, end), "i64", (size,))
        behind = len(self._dims) - 1 - self._axis
        return line if not behind else self._edit.view(line, (size, *(1,) * behind))

    def _beside(self, parts: tuple[Ref, ...], dtype: DType, dims: tuple[Dim, ...]) -> Ref:
        return parts[0] if len(parts) == 1 else self._add("cat.default", (parts, self._axis), dtype, dims)

    def _number(self, number: float, dtype: DType) -> Ref:
        out = OutputSpec(dtype=dtype, dims=())
        return self._edit.add("aten.scalar_tensor.default", (number,), out, kwargs=(("dtype", dtype),))

    def _add(self, op: str, args: tuple[Arg, ...], dtype: DType, dims: tuple[Dim, ...]) -> Ref:
        stem = op.partition(".")[0].strip("_")
        return self._edit.add(f"aten.{op}", args, OutputSpec(dtype=dtype, dims=dims), stem)
