"""Rows that are moved as a whole: their order is settled where they are read, not behind what they come to.

A transformer normalises every token and takes the first of each image; a Swin block normalises, rolls the
image and cuts it into windows. Where a row lies changes nothing of its mean: the rows that are wanted are
read where they lie, in the order that is wanted, and one kernel makes them. Normalised first, rows that
nobody wants are reduced too, and what each comes to is written, so that another kernel finds it from the new
place. Owns which movements go along an axis that no reduction on the way up to the inputs touches;
rewrites.py has the rule's name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref, refs_in
from workbench.playbook.graph.graph_edit import GraphEdit, argument, shape_of
from workbench.playbook.ir.operations import is_pointwise
from workbench.problem.components import REDUCTIONS, reduced_axes

_CAT, _SLICE, _SELECT, _VIEW, _EXPAND = (
    "aten.cat.default", "aten.slice.Tensor", "aten.select.int", "aten.view.default", "aten.expand.default",
)  # fmt: skip
_FLIPS = frozenset(["aten.flip.default", "prims.rev.default"])
_PICKED = frozenset(["aten.index_select.default", "aten.index.Tensor"])
_FEWER = frozenset([_SLICE, _SELECT, *_PICKED])
"""Movements that may leave rows out."""
PIECES = 2
"""Slices that are joined again, as a roll has them."""


@dataclass(frozen=True)
class _Move:
    """One movement along ``axis`` that leaves ``size`` there."""

    axis: int
    size: Dim
    node: OpNode
    """Of ``_FEWER``, a flip, or a concatenation of slices."""
    pieces: tuple[OpNode, ...] = ()
    """These slices."""


def moved_first(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """The last of some movements of rows, as what is made of rows that have been moved."""
    if any(user is not None and _source(edit, user) is not None for user in edit.users(node)):
        return None  # there is another behind it
    moves: list[_Move] = []
    source: Ref | None = None
    at: OpNode | None = node
    while at is not None and (found := _source(edit, at)) is not None:
        source, own = found
        if at.op == _SELECT:  # what is done behind it counts axes without the one that is gone
            moves = [replace(one, axis=one.axis + (one.axis >= own[0].axis)) for one in moves]
        moves = [*own, *moves]
        at = edit.made(source)
    if source is None or at is None or not moves:
        return None
    rows = _Rows(edit, moves)
    if not rows.can_be_made_of_moved(source):
        return None
    args: tuple[Arg, ...] = (rows.moved(source), shape_of(node.outs[0].dims))
    return node.model_copy(update={"op": _VIEW, "args": args, "kwargs": ()})


def _source(edit: GraphEdit, node: OpNode) -> tuple[Ref, list[_Move]] | None:
    """What a node moves that nobody else reads, and how; None for a node that moves nothing, or several."""
    if len(node.outs) != 1 or not node.args:
        return None
    dims, parts = node.outs[0].dims, [node]
    if node.op == _CAT:
        parts = [one for one in map(edit.made, refs_in(node.args[:1])) if one is not None]
        if len(parts) != PIECES or any(part.op != _SLICE or edit.users(part) != [node] for part in parts):
            return None
        if len(list(refs_in(node.args[:1]))) != PIECES:
            return None
        axis = _axis(node, 1, len(dims))
        if any(_axis(part, 1, len(dims)) != axis or not _is_run(part) for part in parts):
            return None
        moves = [_Move(axis, dims[axis], node, tuple(parts))]
    elif node.op in _FEWER and isinstance(node.args[0], Ref):
        before = edit.spec(node.args[0]).dims
        along = _indexed(edit, node) if node.op == "aten.index.Tensor" else _axis(node, 1, len(before))
        if along is None:
            return None
        is_whole = node.op == _SLICE and before == dims  # a step is 1 or more
        moves = [] if is_whole else [_Move(along, 1 if node.op == _SELECT else dims[along], node)]
    elif node.op in _FLIPS and isinstance(node.args[1], tuple):
        axes = [one % len(dims) for one in node.args[1] if isinstance(one, int)]
        moves = [_Move(axis, dims[axis], node) for axis in axes]
    else:
        return None
    sources = {part.args[0] for part in parts}
    of = sources.pop()
    if sources or not isinstance(of, Ref) or of.item:
        return None
    made = edit.made(of)
    is_own = made is not None and len(made.outs) == 1 and set(_names(edit.users(made))) == set(_names(parts))
    return (of, moves) if is_own else None


def _is_run(piece: OpNode) -> bool:
    """True for a slice of neighbours that begins at a place counted from the front."""
    start, step = _start(piece), argument(piece, dict(piece.kwargs), 4, "step", 1)
    return step == 1 and not (isinstance(start, int) and start < 0)


def _names(nodes: list[OpNode] | list[OpNode | None]) -> list[str | None]:
    return [None if node is None else node.name for node in nodes]


def _axis(node: OpNode, position: int, rank: int) -> int:
    axis = argument(node, dict(node.kwargs), position, "dim", 0)
    assert isinstance(axis, int)
    return axis % rank


def _indexed(edit: GraphEdit, node: OpNode) -> int | None:
    """The axis along which a list of places takes rows; None for masks, and for several lists."""
    places = node.args[1] if isinstance(node.args[1], tuple) else ()
    found = [axis for axis, one in enumerate(places) if isinstance(one, Ref)]
    spec = edit.spec(next(refs_in(places))) if len(found) == 1 else None
    return None if spec is None or len(spec.dims) != 1 or spec.dtype == "bool" else found[0]


class _Rows:
    """What rows are made of, up to tensors in memory."""

    def __init__(self, edit: GraphEdit, moves: list[_Move]) -> None:
        self._edit, self._moves = edit, moves
        self._done: dict[tuple[Ref, int], Ref] = {}
        self._above: set[str] = set()
        """Nodes between the rows and the tensors, which are made again."""
        self._reduces = self._is_read_as_it_lies = False

    def can_be_made_of_moved(self, source: Ref) -> bool:
        """True where rows are reduced on the way, where nobody else reads what lies on it, and where no axis
        that something moves along is reduced."""
        rank = len(self._edit.spec(source).dims)
        axes = {move.axis for move in self._moves}
        if len(axes) == rank:
            return False
        self._look(source, 0, False)
        if not (self._reduces and (self._is_read_as_it_lies or self._leaves_out)):
            return False
        own = self._above - {source.ref}  # of the source it is known
        users = [user for name in own for user in self._edit.users(self._node(name))]
        return all(user is not None and user.name in self._above for user in users)

    @property
    def _leaves_out(self) -> bool:
        return any(move.node.op in _FEWER for move in self._moves)

    def _node(self, name: str) -> OpNode:
        made = self._edit.made(Ref(ref=name))
        assert made is not None
        return made

    def _look(self, ref: Ref, first: int, is_reduced: bool) -> None:
        """``first`` is how many axes, counted from the front, an operand lacks."""
        above = self._operands(ref, first)
        if above is None:
            made = self._edit.made(ref)
            filled = made is not None and not made.refs
            self._is_read_as_it_lies |= not is_reduced and not filled
            return
        if ref.ref in self._above:
            return
        self._above.add(ref.ref)
        reduces = self._node(ref.ref).base_name in REDUCTIONS
        self._reduces |= reduces
        for operand, lacks in above:
            if self._moved_axes(operand, lacks):
                self._look(operand, lacks, is_reduced or reduces)

    def _moved_axes(self, ref: Ref, lacks: int) -> bool:
        """True where the movements move something of it."""
        dims = self._edit.spec(ref).dims
        return any(move.axis >= lacks and dims[move.axis - lacks] != 1 for move in self._moves)

    def _operands(self, ref: Ref, lacks: int) -> list[tuple[Ref, int]] | None:
        """What a row is made of, and how many leading axes that lacks; None for a tensor that is moved."""
        node = self._edit.made(ref)
        if node is None or ref.item or len(node.outs) != 1 or not node.args:
            return None
        dims = node.outs[0].dims
        axes = {move.axis - lacks for move in self._moves if move.axis >= lacks}
        if is_pointwise(node):
            found = list(refs_in(node.args))
            return [(one, lacks + len(dims) - len(self._edit.spec(one).dims)) for one in found] or None
        operand = node.args[0]
        if node.kwargs or not isinstance(operand, Ref):
            return None
        before = self._edit.spec(operand).dims
        if node.base_name in REDUCTIONS:
            reduced = reduced_axes(node, len(before))
            # Axes in front of those that are reduced keep their places, whatever becomes of these.
            return [(operand, lacks)] if not axes or max(axes) < min(reduced, default=0) else None
        kept = max(axes, default=-1) + 1
        if node.op in (_VIEW, _EXPAND) and before[:kept] == dims[:kept]:
            return [(operand, lacks)]
        return None

    def moved(self, ref: Ref, lacks: int = 0) -> Ref:
        """The same, made of rows that are where they are wanted."""
        key = (ref, lacks)
        if key not in self._done:
            self._done[key] = self._made(ref, lacks)
        return self._done[key]

    def _made(self, ref: Ref, lacks: int) -> Ref:
        if not self._moved_axes(ref, lacks):
            return ref
        above = self._operands(ref, lacks)
        if above is None:
            for move in self._moves:
                if move.axis >= lacks and self._edit.spec(ref).dims[move.axis - lacks] != 1:
                    ref = self._once(move, ref, move.axis - lacks)
            return ref
        node, by = self._node(ref.ref), {one: self.moved(one, own) for one, own in above}
        args = tuple(self._argument(arg, by) for arg in node.args)
        out = OutputSpec(dtype=node.outs[0].dtype, dims=self._dims(node.outs[0].dims, lacks))
        if node.op in (_VIEW, _EXPAND):
            args = (args[0], shape_of(out.dims))
        return self._edit.add(node.op, args, out, f"{node.name}_moved", node.kwargs)

    def _argument(self, arg: Arg, by: dict[Ref, Ref]) -> Arg:
        if isinstance(arg, tuple):
            return tuple(self._argument(one, by) for one in arg)
        return by.get(arg, arg) if isinstance(arg, Ref) else arg

    def _dims(self, dims: tuple[Dim, ...], lacks: int) -> tuple[Dim, ...]:
        found = list(dims)
        for move in self._moves:
            if move.axis >= lacks and found[move.axis - lacks] != 1:
                found[move.axis - lacks] = move.size
        return tuple(found)

    def _once(self, move: _Move, ref: Ref, axis: int) -> Ref:
        """A tensor with one movement made along an axis."""
        edit, spec, node = self._edit, self._edit.spec(ref), move.node

        def of(size: Dim) -> OutputSpec:
            return OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], size, *spec.dims[axis + 1 :]))

        if node.op == _CAT:
            places = self._places(move)
            return edit.add("aten.index.Tensor", (ref, (*[None] * axis, places)), of(move.size), "moved")
        if node.op == _SELECT:
            alone = OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], *spec.dims[axis + 1 :]))
            return edit.view(edit.add(_SELECT, (ref, axis, node.args[2]), alone, "moved"), of(1).dims)
        if node.op == "aten.index.Tensor":
            places = next(refs_in(node.args[1:]))
            return edit.add(node.op, (ref, (*[None] * axis, places)), of(move.size), "moved")
        if node.op in _FEWER:
            return edit.add(node.op, (ref, axis, *node.args[2:]), of(move.size), "moved", node.kwargs)
        return edit.add(node.op, (ref, (axis,)), of(move.size), "moved")

    def _places(self, move: _Move) -> Ref:
        """Where each of two slices that are joined has its elements: one place of the tensor for each."""
        edit = self._edit
        out = OutputSpec(dtype="i64", dims=(move.size,))
        first, second = move.pieces
        count = shape_of((first.outs[0].dims[move.axis],))[0]
        line = edit.add("aten.arange.start_step", (0, *shape_of((move.size,))), out, "place")
        is_first = edit.add(
            "aten.lt.Scalar", (line, count), OutputSpec(dtype="bool", dims=out.dims), "is_first"
        )
        behind = edit.add("aten.sub.Tensor", (line, count), out, "behind")
        starts = zip((line, behind), (_start(first), _start(second)), strict=True)
        both = [at if start == 0 else edit.add("aten.add.Tensor", (at, start), out) for at, start in starts]
        return edit.add("aten.where.self", (is_first, *both), out, "place")


def _start(piece: OpNode) -> Arg:
    return argument(piece, dict(piece.kwargs), 2, "start", 0) or 0
