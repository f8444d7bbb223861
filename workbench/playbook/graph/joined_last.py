"""What is stacked or joined and computed with: computed piece by piece, and put together at the end.

A flux has four components, each a formula of its own, and what becomes of it is the same for all. Stacked
first, each element of the result would ask which of them it is, once for every stack that it is made of and
for every place that it is read at; what is too long for that is written to memory, stack by stack. Computed
piece by piece, a thread has all components of a place, and what they share it has once. What much is computed
for and neighbours read as well is written, piece by piece. Owns which computations those are; rewrites.py has
the rule's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import WRITTEN, GraphEdit, argument, shape_of
from workbench.playbook.ir.operations import MOST_INLINE, VIEWS, is_pointwise
from workbench.playbook.ir.sizes import ZERO

MOST_PIECES = 8
_LONG = 24
"""Operations of what is written once where it is read at several places: about as many as its bytes have time
for."""
_WHOLE = VIEWS - {"slice", "select"}
_CAT, _VIEW = "aten.cat.default", "aten.view.default"
_SLICE, _PUT = "aten.slice.Tensor", "aten.slice_scatter.default"
_AS_IT_IS = frozenset(["aten.clone.default", "aten.alias.default"])


def joined_last(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A computation behind which nothing goes on piece by piece, if several stacks of computed pieces are
    below it, or one whose neighbours are wanted too: its own pieces, stacked."""
    for axis, sizes in _cuts(edit, node):
        users = [user for user in edit.users(node) if user is not None]
        if not _goes_on(edit, node, axis) or any(_goes_on(edit, user, axis) for user in users):
            continue
        below = _Below(edit, node, axis, sizes)
        if below.is_worth_it:
            update = {"op": _CAT, "args": (below.pieces(), len(node.outs[0].dims) + axis), "kwargs": ()}
            return node.model_copy(update=update)
    return None


def _cuts(edit: GraphEdit, node: OpNode) -> Iterator[tuple[int, tuple[Dim, ...]]]:
    """Axes, counted from the last, and how long pieces along them are: one each where few lie along an axis,
    and as long as what is joined and computed with."""
    if len(node.outs) != 1:
        return
    dims = node.outs[0].dims
    for at, dim in enumerate(dims):
        if isinstance(dim, int) and 1 < dim <= MOST_PIECES:
            yield at - len(dims), (1,) * dim
    above = _above_joined(edit)
    pending, seen = [node] if node.name in above else [], {node.name}
    while pending:
        current = pending.pop()
        if current.op == _CAT and isinstance(current.args[0], tuple):
            axis = _along(current, 1)
            sizes = tuple(edit.spec(ref).dims[axis] for ref in current.args[0] if isinstance(ref, Ref))
            if 1 < len(sizes) <= MOST_INLINE and set(sizes) != {1}:
                yield axis, sizes
        elif current.name in above:
            made = [one for one in map(edit.made, current.refs) if one is not None and one.name not in seen]
            seen.update(one.name for one in made)
            pending += made


@lru_cache(maxsize=1)
def _above_joined(edit: GraphEdit) -> frozenset[str]:
    """What is computed, element by element alone, of something joined: nowhere else is one looked for below,
    or each step of a loop would look through all steps before it."""
    above = set[str]()
    for node in edit.graph.nodes:
        made = [one for one in map(edit.made, node.refs) if one is not None]
        if is_pointwise(node) and any(one.op == _CAT or one.name in above for one in made):
            above.add(node.name)
    return frozenset(above)


def _goes_on(edit: GraphEdit, node: OpNode, axis: int) -> bool:
    """True for an operation that makes each piece of its operands' pieces."""
    if len(node.outs) != 1 or len(node.outs[0].dims) < -axis:
        return False
    if node.op == _CAT:
        return _along(node, 1) != axis
    if node.op in (_SLICE, _PUT):
        return _along(node, _first(node)) != axis or _is_whole(edit, node)
    return node.op in _AS_IT_IS or is_pointwise(node)


def _first(node: OpNode) -> int:
    """Where the axis stands among the arguments of a slice; before it the tensor that is seen or put."""
    return 1 if node.op == _SLICE else 2


def _along(node: OpNode, position: int) -> int:
    """The axis of an operation, counted from the last."""
    axis = argument(node, dict(node.kwargs), position, "dim", 0)
    assert isinstance(axis, int)
    rank = len(node.outs[0].dims)
    return axis % rank - rank


def _is_whole(edit: GraphEdit, node: OpNode) -> bool:
    """True where a slice along its axis is all there is along it."""
    named, first = dict(node.kwargs), _first(node)
    start, end, step = (
        argument(node, named, first + at, name, default)
        for at, name, default in ((1, "start", 0), (2, "end", None), (3, "step", 1))
    )
    of, along = node.args[first - 1], _along(node, first)
    assert isinstance(of, Ref)
    count = edit.spec(of).dims[along]
    ends = end is None or (isinstance(end, int) and isinstance(count, int) and end >= count)
    return start in (0, None) and step == 1 and ends and node.outs[0].dims[along] == count


class _Below:
    """What ``root`` is made of piece by piece, down to stacks and to what has no stack below it."""

    def __init__(self, edit: GraphEdit, root: OpNode, axis: int, sizes: tuple[Dim, ...]) -> None:
        self._edit, self._axis, self._root, self._sizes = edit, axis, root, sizes
        self._stacks: dict[str, list[Ref]] = {}
        reached, pending = {root.name}, [root]
        while pending:
            node = pending.pop()
            if parts := joined_along(edit, node, axis, sizes):
                self._stacks[node.name] = parts
            elif _goes_on(edit, node, axis):
                made = [one for one in self._made_of(node) if one.name not in reached]
                reached.update(one.name for one in made)
                pending += made
        self._holding: dict[str, OpNode] = {}
        """Stacks, and what is made of them, in the graph's order."""
        for node in edit.graph.nodes if self._stacks else ():
            below = node.name in reached and any(one.name in self._holding for one in self._made_of(node))
            if node.name in self._stacks or below:
                self._holding[node.name] = node

    @property
    def is_worth_it(self) -> bool:
        """Not where all pieces lie in memory, and are read as they lie; nor where an element asks once."""
        if set(self._sizes) != {1} and not any(map(self._is_all_computed, self._stacks.values())):
            return False
        computed = any(_is_computed(self._edit, part) for parts in self._stacks.values() for part in parts)
        moved = any(node.op == _CAT and name not in self._stacks for name, node in self._holding.items())
        return computed and (len(self._stacks) > 1 or moved)

    def _is_all_computed(self, parts: list[Ref]) -> bool:
        """Not for the halves of a row the other way round or a roll, which are parts of one value, nor for
        angles that stand twice in a row, which lowering/equal_pieces.py has."""
        return len(set(parts)) > 1 and all(_is_computed(self._edit, part, _WHOLE) for part in parts)

    def pieces(self) -> tuple[Ref, ...]:
        """Of the root, each with the axis."""
        found: dict[str, tuple[Ref, ...]] = {}
        for name, node in self._holding.items():
            found[name] = tuple(self._piece(found, node, at) for at in range(len(self._sizes)))
        return found[self._root.name]

    def _piece(self, found: dict[str, tuple[Ref, ...]], node: OpNode, at: int) -> Ref:
        edit, out = self._edit, self._out(node.outs[0], at)
        if node.name in self._stacks:
            part = self._stacks[node.name][at]
            part = part if edit.spec(part).dims == out.dims else edit.view(part, out.dims)
            return edit.converted(part, out.dtype)
        if node.op in (_SLICE, _PUT) and _along(node, _first(node)) == self._axis:  # the whole of it
            return self._of(found, node.args[_first(node) - 1], at)
        args = tuple(self._argument(found, arg, at) for arg in node.args)
        made = edit.add(node.op, args, out, f"{node.name}_{at}", node.kwargs)
        return edit.add(WRITTEN, (made,), out, f"{node.name}_{at}_once") if self._is_written(node) else made

    def _argument(self, found: dict[str, tuple[Ref, ...]], arg: Arg, at: int) -> Arg:
        if isinstance(arg, tuple):
            return tuple(self._argument(found, one, at) for one in arg)
        return self._of(found, arg, at) if isinstance(arg, Ref) else arg

    def _of(self, found: dict[str, tuple[Ref, ...]], ref: Arg, at: int) -> Ref:
        """The piece ``at`` of an operand; the operand itself where all pieces are the same."""
        assert isinstance(ref, Ref)
        made, spec = self._edit.made(ref), self._edit.spec(ref)
        if made is not None and made.name in found and self._has_axis(ref):
            return found[made.name][at]
        if not self._has_axis(ref):
            return ref
        read = self._edit.sizes.read
        start, end = (sum(map(read, self._sizes[:last]), start=ZERO) for last in (at, at + 1))
        ends = shape_of((start.dim, end.dim))
        return self._edit.add(_SLICE, (ref, len(spec.dims) + self._axis, *ends), self._out(spec, at), "piece")

    def _out(self, spec: OutputSpec, at: int) -> OutputSpec:
        axis = len(spec.dims) + self._axis
        return OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], self._sizes[at], *spec.dims[axis + 1 :]))

    def _has_axis(self, ref: Ref) -> bool:
        dims = self._edit.spec(ref).dims
        return len(dims) >= -self._axis and dims[self._axis] != 1

    def _made_of(self, node: OpNode) -> list[OpNode]:
        """The nodes whose pieces a node's pieces are made of."""
        made = (self._edit.made(ref) for ref in node.refs if self._has_axis(ref))
        return [one for one in made if one is not None]

    def _is_written(self, node: OpNode) -> bool:
        """True for what is long to compute, and read as it lies and, moved, at other places."""
        users = [user for user in self._edit.users(node) if user is not None]
        if not is_pointwise(node) or {user.op == _SLICE for user in users} != {True, False}:
            return False
        computed, pending, seen = 0, [node], {node.name}
        while pending and computed < _LONG:
            current = pending.pop()
            computed += is_pointwise(current)
            made = [
                one for one in map(self._edit.made, current.refs) if one is not None and one.name not in seen
            ]
            seen.update(one.name for one in made)
            pending += made
        return computed >= _LONG


def joined_along(edit: GraphEdit, node: OpNode, axis: int, sizes: tuple[Dim, ...]) -> list[Ref]:
    """What is joined along an axis in pieces of such sizes."""
    if set(sizes) == {1}:
        return stacked_along(edit, node, axis)
    if node.op != _CAT or _along(node, 1) != axis or not isinstance(node.args[0], tuple):
        return []
    found = [part for part in node.args[0] if isinstance(part, Ref)]
    return found if tuple(edit.spec(part).dims[axis] for part in found) == sizes else []


def stacked_along(edit: GraphEdit, node: OpNode, axis: int) -> list[Ref]:
    """What is joined along an axis one by one, by a concatenation or, seen with an axis more, by a stack."""
    match node:
        case OpNode(op=op, args=((*parts,), *_)) if op == _CAT and _along(node, 1) == axis:
            found = [part for part in parts if isinstance(part, Ref)]
            return found if all(edit.spec(part).dims[axis] == 1 for part in found) else []
        case OpNode(op=op, args=(Ref() as of, *_)) if op == _VIEW and len(node.outs[0].dims) >= -axis:
            dims, made = node.outs[0].dims, edit.made(of)
            at = len(dims) + axis
            match made:
                case OpNode(op=cat, args=((*parts,), *_)) if cat == _CAT:
                    found = [part for part in parts if isinstance(part, Ref)]
                    each = (*dims[:at], *dims[at + 1 :])
                    one_by_one = len(found) == dims[at] and {edit.spec(part).dims for part in found} == {each}
                    return found if one_by_one and _along(made, 1) + len(each) == at else []
    return []


def _is_computed(edit: GraphEdit, ref: Ref, seen: frozenset[str] = VIEWS) -> bool:
    """True for what is made element by element, as it is or in one of the ways that are ``seen`` through."""
    made = edit.made(ref)
    while made is not None and made.base_name in seen and isinstance(made.args[0], Ref):
        made = edit.made(made.args[0])
    return made is not None and is_pointwise(made)
