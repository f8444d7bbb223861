"""What nobody wants of a product is not made: of a head over all tokens, the last token's row.

``head(norm(x))[:, -1]`` multiplies every token and throws all but one of each sequence away; so does a block
of attention of which the class token is read. A row of a product is made of a row of its left factor, and so
is what lies before it element by element, row by row: the rows that are wanted are taken where they are read,
and only they are made. Attention still reads all keys and values. Owns the rule, and how a part of an axis is
found again through views that merge and split axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref, refs_in
from workbench.playbook.graph.graph_edit import GraphEdit, argument, shape_of
from workbench.playbook.ir.operations import is_pointwise
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.problem.components import REDUCTIONS, reduced_axes

_SELECT, _SLICE, _VIEW = "aten.select.int", "aten.slice.Tensor", "aten.view.default"
_EXPAND, _PERMUTE = "aten.expand.default", "aten.permute.default"
_ATTENTION = "aten.scaled_dot_product_attention.default"
_LEAST_LEFT_OUT = 2
"""An axis over what is wanted of it, from which on a product of less is worth rows that lie apart."""


@dataclass(frozen=True)
class _Part:
    """Where the axis lies that something is taken along: ``axis`` is ``outer * size * inner`` long."""

    axis: int
    outer: Size
    inner: Size


_Operands = tuple[tuple[Ref, _Part], ...]
"""What of a node has the part, and where."""


def wanted_rows(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """Some rows or columns of a product, as the product of these alone."""
    if node.op not in (_SELECT, _SLICE) or not isinstance(node.args[0], Ref):
        return None
    source = node.args[0]
    before, dims = edit.spec(source).dims, node.outs[0].dims
    axis = argument(node, dict(node.kwargs), 1, "dim", 0)
    assert isinstance(axis, int)
    axis %= len(before)
    if not _leaves_much_out(edit, before[axis], 1 if node.op == _SELECT else dims[axis]):
        return None
    wanted = _Wanted(edit, node, axis)
    if not wanted.multiplies:
        return None
    args: tuple[Arg, ...] = (wanted.made(source, wanted.first), shape_of(dims))
    return node.model_copy(update={"op": _VIEW, "args": args, "kwargs": ()})


def _leaves_much_out(edit: GraphEdit, size: Dim, left: Dim) -> bool:
    whole, some = edit.sizes.read(size), edit.sizes.read(left)
    return all(some.at(case) * _LEAST_LEFT_OUT <= whole.at(case) for case in edit.cases)


class _Wanted:
    """What is above a selection, up to where it can be made before: there it is made."""

    def __init__(self, edit: GraphEdit, node: OpNode, axis: int) -> None:
        self._edit, self._node = edit, node
        self._size = edit.sizes.read(edit.spec(Ref.model_validate(node.args[0])).dims[axis])
        self._left = ONE if node.op == _SELECT else edit.sizes.read(node.outs[0].dims[axis])
        self.first = _Part(axis, ONE, ONE)
        self._done: dict[tuple[Ref, _Part], Ref] = {}
        stopped = set[str]()
        while more := self._look(stopped):
            stopped |= more

    @property
    def multiplies(self) -> bool:
        """True where a product is made of less."""
        return any(self._node_of(name).op in _PRODUCTS for name in self._above)

    def _node_of(self, name: str) -> OpNode:
        made = self._edit.made(Ref(ref=name))
        assert made is not None
        return made

    def _look(self, stopped: set[str]) -> set[str]:
        """Find what is above; the nodes of that which others read too, or in two ways."""
        self._above: dict[str, tuple[_Part, _Operands]] = {}
        twice = set[str]()
        source = self._node.args[0]
        assert isinstance(source, Ref)
        pending = [(source, self.first)]
        while pending:
            ref, part = pending.pop()
            if ref.ref in self._above:
                if self._above[ref.ref][0] != part:
                    twice.add(ref.ref)
                continue
            made = self._edit.made(ref)
            if made is None or made.name != ref.ref or ref.ref in stopped or len(made.outs) != 1:
                continue
            operands = self._operands(made, part)
            if operands:
                self._above[ref.ref] = (part, operands)
                pending += operands
        known = {*self._above, self._node.name}
        for name in self._above:
            users = self._edit.users(self._node_of(name))
            if any(user is None or user.name not in known for user in users):
                twice.add(name)
        return twice

    # ------------------------------------------------------------------- where it lies in the operands

    def _operands(self, node: OpNode, part: _Part) -> _Operands | None:
        """None for what can't be made of less of its operands, or of none."""
        if is_pointwise(node):
            found = [self._spread(node, ref, part) for ref in refs_in(node.args)]
            return tuple(one for one in found if one is not None)
        if node.base_name in REDUCTIONS and not node.kwargs:
            return self._not_reduced(node, part)
        way = _WAYS.get(node.op)
        return way(self, node, part) if way is not None else None

    def _dims(self, ref: Arg) -> tuple[Dim, ...]:
        assert isinstance(ref, Ref)
        return self._edit.spec(ref).dims

    def _spread(self, node: OpNode, ref: Ref, part: _Part) -> tuple[Ref, _Part] | None:
        """An operand of a pointwise operation; None where it is the same for all of the axis."""
        dims = self._dims(ref)
        axis = part.axis - (len(node.outs[0].dims) - len(dims))
        if axis < 0 or dims[axis] == 1:
            return None
        return ref, _Part(axis, part.outer, part.inner)

    def _not_reduced(self, node: OpNode, part: _Part) -> _Operands | None:
        operand = node.args[0]
        if not isinstance(operand, Ref):
            return None
        rank = len(self._dims(operand))
        reduced = reduced_axes(node, rank)
        kept = list(range(rank))
        if len(node.outs[0].dims) < rank:
            kept = [axis for axis in kept if axis not in reduced]
        axis = kept[part.axis]
        return None if axis in reduced else ((operand, _Part(axis, part.outer, part.inner)),)

    def _viewed(self, node: OpNode, part: _Part) -> _Operands | None:
        operand = node.args[0]
        assert isinstance(operand, Ref)
        sizes = [self._edit.sizes.read(dim) for dim in node.outs[0].dims]
        ahead = product(sizes[: part.axis]) * part.outer
        begin = ONE
        for axis, size in enumerate(self._edit.sizes.read(dim) for dim in self._dims(operand)):
            if begin.divides(ahead):
                outer = ahead // begin
                if (outer * self._size).divides(size) and not size.is_one:
                    return ((operand, _Part(axis, outer, size // (outer * self._size))),)
            begin *= size
        return None

    def _permuted(self, node: OpNode, part: _Part) -> _Operands | None:
        operand, axes = node.args[:2]
        assert isinstance(operand, Ref) and isinstance(axes, tuple)
        axis = axes[part.axis]
        assert isinstance(axis, int)
        return ((operand, _Part(axis % len(axes), part.outer, part.inner)),)

    def _expanded(self, node: OpNode, part: _Part) -> _Operands | None:
        operand = node.args[0]
        assert isinstance(operand, Ref)
        found = self._spread(node, operand, part)
        return None if found is None else (found,)

    def _sliced(self, node: OpNode, part: _Part) -> _Operands | None:
        """Of a slice that leaves nothing out, as ``x[:, 0]`` begins."""
        operand = node.args[0]
        assert isinstance(operand, Ref)
        return ((operand, part),) if self._dims(operand) == node.outs[0].dims else None

    def _multiplied(self, node: OpNode, part: _Part) -> _Operands | None:
        """Rows are the left factor's, columns the right one's, and a batch both factors'."""
        left, right = node.args[-2:]
        if not (isinstance(left, Ref) and isinstance(right, Ref)) or node.kwargs:
            return None
        batch = len(node.outs[0].dims) - 2
        if part.axis < batch:
            return (left, part), (right, part)
        found = [(left if part.axis == batch else right, part)]
        if node.op == "aten.addmm.default":
            added = node.args[0]
            assert isinstance(added, Ref)
            found += [one for one in [self._spread(node, added, part)] if one is not None]
        return tuple(found)

    def _attended(self, node: OpNode, part: _Part) -> _Operands | None:
        """The queries whose results are wanted meet all keys; heads and images have their own."""
        query, key, value, *others = node.args
        if any(others) or any(name != "scale" for name, _ in node.kwargs):
            return None  # a mask has a place for each query and key
        assert isinstance(query, Ref) and isinstance(key, Ref) and isinstance(value, Ref)
        rank = len(node.outs[0].dims)
        if part.axis == rank - 2:
            return ((query, part),)
        if part.axis == rank - 1:
            return ((value, part),)
        alike = self._dims(query)[:-2] == self._dims(key)[:-2] == self._dims(value)[:-2]
        return ((query, part), (key, part), (value, part)) if alike else None

    # ----------------------------------------------------------------------------- made of less

    def made(self, ref: Ref, part: _Part) -> Ref:
        """What is wanted of a tensor."""
        if (ref, part) not in self._done:
            own = self._above.get(ref.ref)
            self._done[ref, part] = self._taken(ref, part) if own is None else self._again(ref, *own)
        return self._done[ref, part]

    def _less(self, dims: tuple[Dim, ...], part: _Part) -> tuple[Dim, ...]:
        """A shape with what is wanted along the part."""
        short = (part.outer * self._left * part.inner).dim
        return (*dims[: part.axis], short, *dims[part.axis + 1 :])

    def _again(self, ref: Ref, part: _Part, operands: _Operands) -> Ref:
        node = self._node_of(ref.ref)
        by = {operand: self.made(operand, own) for operand, own in operands}
        args = tuple(_replaced(arg, by) for arg in node.args)
        out = OutputSpec(dtype=node.outs[0].dtype, dims=self._less(node.outs[0].dims, part))
        if node.op in (_VIEW, _EXPAND):
            args = (args[0], shape_of(out.dims))
        if node.op == _SLICE:
            return by[operands[0][0]]
        return self._edit.add(node.op, args, out, f"{node.name}_wanted", node.kwargs)

    def _taken(self, ref: Ref, part: _Part) -> Ref:
        """The selection, where it can't be made before."""
        edit, node, spec = self._edit, self._node, self._edit.spec(ref)
        ahead, behind = ([] if one.is_one else [one.dim] for one in (part.outer, part.inner))
        before, after = [*spec.dims[: part.axis], *ahead], [*behind, *spec.dims[part.axis + 1 :]]
        if ahead or behind:
            ref = edit.view(ref, (*before, self._size.dim, *after))
        left = [self._left.dim] if node.op == _SLICE else []
        out = OutputSpec(dtype=spec.dtype, dims=(*before, *left, *after))
        taken = edit.add(node.op, (ref, len(before), *node.args[2:]), out, "wanted", node.kwargs)
        short = self._less(spec.dims, part)
        return taken if short == out.dims else edit.view(taken, short)


def _replaced(arg: Arg, by: Mapping[Ref, Ref]) -> Arg:
    if isinstance(arg, tuple):
        return tuple(_replaced(one, by) for one in arg)
    return by.get(arg, arg) if isinstance(arg, Ref) else arg


_PRODUCTS = frozenset(["aten.mm.default", "aten.bmm.default", "aten.addmm.default", _ATTENTION])
_WAYS: Mapping[str, Callable[[_Wanted, OpNode, _Part], _Operands | None]] = {
    _VIEW: _Wanted._viewed,
    _PERMUTE: _Wanted._permuted,
    _EXPAND: _Wanted._expanded,
    _SLICE: _Wanted._sliced,
    "aten.mm.default": _Wanted._multiplied,
    "aten.bmm.default": _Wanted._multiplied,
    "aten.addmm.default": _Wanted._multiplied,
    _ATTENTION: _Wanted._attended,
}
