"""Elements of a row as whole numbers that are in their order, so that a maximum or a minimum finds an element
and its place at once.

Owns the words: the bits of a float, turned so that they are in its order, NaN above all others as in torch,
and for words of 64 bits the place below them. What is done with them is few_largest.py's and
few_in_order.py's.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import Arg, Dim, DType, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit
from workbench.playbook.ir.operations import is_float

PLACES = 2**31 - 1
"""All bits of an int32 but the sign."""


@dataclass(frozen=True)
class Words:
    """Nodes that make words of the elements of a tensor of type ``dtype``, and elements of words.

    ``later_wins`` is false where of equal elements the first has the larger word, and true where it has the
    smaller.
    """

    edit: GraphEdit
    dtype: DType
    later_wins: bool = False

    def with_places(self, x: Ref, places: Ref, *, one_zero: bool = False) -> Ref:
        """Words of 64 bits: every element above its place, which is an int32 that is broadcast.

        With ``one_zero`` -0 and 0 are equal, as to torch, and not in the order of their bits.
        """
        key = self.keys(x)
        if one_zero and is_float(self.dtype):
            dims = self.edit.spec(key).dims
            is_zero = self.add("eq.Scalar", (x, 0), dims, "bool")
            key = self.add("where.self", (is_zero, self.edit.scalar(0, "i32"), key), dims, "i32")
        dims = self.edit.spec(x).dims
        high = self.add("__lshift__.Scalar", (self.edit.converted(key, "i64"), 32), dims)
        low = self.edit.converted(self._turned_place(places), "i64")
        return self.add("bitwise_or.Tensor", (high, low), dims)

    def place(self, word: Ref) -> Ref:
        """The place of a word's element."""
        low = self.add("bitwise_and.Scalar", (word, PLACES), self.edit.spec(word).dims)
        return self._turned_place(self.edit.converted(low, "i32"))

    def value(self, word: Ref) -> Ref:
        """The element of a word that has its place too."""
        high = self.add("__rshift__.Scalar", (word, 32), self.edit.spec(word).dims)
        return self.element(self.edit.converted(high, "i32"))

    def keys(self, x: Ref) -> Ref:
        """Words of 32 bits, of elements alone; whole numbers are their own."""
        dims = self.edit.spec(x).dims
        if not is_float(self.dtype):
            return x if self.edit.spec(x).dtype == "i64" else self.edit.converted(x, "i32")
        x = self.edit.converted(x, "f32")
        is_nan = self.add("isnan.default", (x,), dims, "bool")
        x = self.add("where.self", (is_nan, self.edit.scalar(float("nan"), "f32"), x), dims, "f32")
        return self._turned(self.add("view.dtype", (x, "i32"), dims, "i32"))

    def element(self, key: Ref) -> Ref:
        """The element of a word without a place."""
        dims = self.edit.spec(key).dims
        if not is_float(self.dtype):
            return self.edit.converted(key, self.dtype)
        value = self.add("view.dtype", (self._turned(key), "f32"), dims, "f32")
        return self.edit.converted(value, self.dtype)

    def _turned_place(self, places: Ref) -> Ref:
        """Places as a word has them, and back."""
        if self.later_wins:
            return places
        return self.add("sub.Tensor", (PLACES, places), self.edit.spec(places).dims, "i32")

    def _turned(self, bits: Ref) -> Ref:
        """Bits of a float as a whole number in the float's order, and back: below zero all but the sign."""
        dims = self.edit.spec(bits).dims
        below = self.add("lt.Scalar", (bits, 0), dims, "bool")
        other = self.add("bitwise_xor.Scalar", (bits, PLACES), dims, "i32")
        return self.add("where.self", (below, other, bits), dims, "i32")

    def beside(self, parts: tuple[Ref, ...], axis: int) -> Ref:
        """Slices of one element along ``axis``, joined."""
        if len(parts) == 1:
            return parts[0]
        spec = self.edit.spec(parts[0])
        dims = (*spec.dims[:axis], len(parts), *spec.dims[axis + 1 :])
        return self.add("cat.default", (parts, axis), dims, spec.dtype)

    def add(self, op: str, args: tuple[Arg, ...], dims: tuple[Dim, ...], dtype: DType = "i64") -> Ref:
        """A node of ATen's."""
        stem = op.partition(".")[0].strip("_")
        return self.edit.add(f"aten.{op}", args, OutputSpec(dtype=dtype, dims=dims), stem)
