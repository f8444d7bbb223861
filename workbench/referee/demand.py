"""How much of every value the results of a graph depend on, at least: from the results to the arguments.

What lies under a mask is not read, nor what is cut away, and where it is in doubt nothing is claimed. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from workbench.model import Graph, Ref
from workbench.referee.convolution import Shape
from workbench.referee.diagonals import Diagonals, Dims, columns_met, joint, rows_met, share
from workbench.referee.known_atoms import LOCAL, Atom, solid, swallows
from workbench.referee.known_values import (
    LIKE,
    PERMUTED,
    PRODUCTS,
    SAME,
    VIEWS,
    Values,
    operands_of,
    order_of,
    triangle,
)
from workbench.referee.lines import matrix_of
from workbench.referee.work import LOOKUPS, REDUCTIONS, Sized, references

_SPLITS = frozenset(["split", "split_with_sizes", "chunk", "unbind"])
_IN_DOUBT = LOOKUPS | frozenset(
    ["as_strided", "unfold", "scatter", "scatter_add", "index_put", "slice_scatter"]
)
_MOVES = frozenset(["cat", "stack", "flip", "roll", "repeat"])


@dataclass(frozen=True)
class Needed:
    """Places of the last two dimensions, and at least what share of them, of all the other dimensions."""

    places: Diagonals[bool]
    share: float = 1.0

    @property
    def whole(self) -> bool:
        """Every element."""
        return self.share >= 1 and self.places == EVERYWHERE

    def of_all(self, dims: Dims) -> float:
        """Share of all elements that is needed at least."""
        return self.share * share(self.places, dims)

    def spread(self, dims: Dims) -> Needed:
        """As many, nobody knows where."""
        return Needed(EVERYWHERE, self.of_all(dims))

    def where(self, read: Diagonals[bool], dims: Dims) -> Needed:
        """Of these, what is read."""
        if self.share >= 1 or read.uniform:
            return Needed(joint(lambda a, b: a and b, self.places, read), self.share)
        return Needed(EVERYWHERE, max(0.0, self.of_all(dims) + share(read, dims) - 1))


EVERYWHERE = Diagonals((True,))
ALL, NOTHING = Needed(EVERYWHERE), Needed(Diagonals((False,)), 0.0)
Piece = tuple[int, int, int]
"""An axis, and where a cut along it begins and ends."""


@dataclass
class _Asked:
    """What the readers of one value ask of it."""

    needs: list[Needed] = field(default_factory=list)
    pieces: dict[int, set[int]] = field(default_factory=dict)
    """Places along an axis that are read as a whole, each in a piece of its own."""

    def together(self, shape: Shape) -> Needed:
        """At least as much as any of them."""
        exact = [one.places for one in self.needs if one.share >= 1]
        found = [Needed(joint(lambda *parts: any(parts), *exact))] if exact else []
        found += [one for one in self.needs if one.share < 1]
        found += [Needed(EVERYWHERE, len(at) / max(shape[axis], 1)) for axis, at in self.pieces.items()]
        return max(found, key=lambda one: one.of_all(matrix_of(shape)), default=NOTHING)


class Demand:
    """Of every result of a graph, by name."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self.values = values
        self._asked: dict[Ref, _Asked] = {}
        for ref in graph.outputs:
            self._of(ref).needs.append(ALL)
        self.needed: dict[str, Needed] = {}
        for one in reversed(values.nodes):
            self.needed[one.node.name] = self._passed_on(one)

    def _of(self, ref: Ref) -> _Asked:
        return self._asked.setdefault(Ref(ref=ref.ref, item=ref.item or None), _Asked())

    def _passed_on(self, one: Sized) -> Needed:
        if len(one.node.outs) > 1:
            return self._of_many(one)
        need = self._of(Ref(ref=one.node.name)).together(one.output)
        if need.of_all(matrix_of(one.output)) <= 0:
            return NOTHING
        for ref in references(one.node):
            asked = self._of(ref)
            piece = _piece(one, self.values) if need.whole else None
            if piece is not None and ref == one.node.args[0]:
                axis, start, stop = piece
                asked.pieces.setdefault(axis, set()).update(range(start, stop))
            else:
                asked.needs.append(self._through(one, ref, need))
        return need

    def _of_many(self, one: Sized) -> Needed:
        """Of an operation with several results: what they are cut from, or everything they are made of."""
        items = [self._of(Ref(ref=one.node.name, item=item or None)) for item in range(len(one.node.outs))]
        asked = [any(need.whole for need in item.needs) for item in items]
        if one.name not in _SPLITS:
            need = ALL if any(asked) else NOTHING
        else:
            sizes = [self.values.size(one, item) for item in range(len(asked))]
            need = Needed(EVERYWHERE, sum(n for n, is_ in zip(sizes, asked, strict=True) if is_) / sum(sizes))
        for ref in references(one.node):
            self._of(ref).needs.append(need)
        return need

    # -------------------------------------------------------------------------------- one operand

    def _through(self, one: Sized, ref: Ref, need: Needed) -> Needed:
        """What an operation asks of an operand when so much of its result is needed."""
        name, dims, shape = one.name, matrix_of(one.output), self.values.shapes[ref.ref]
        if name in LIKE or name in _IN_DOUBT:
            return NOTHING
        if name in VIEWS or name in SAME:
            return need if matrix_of(shape) == dims else need.spread(dims)
        if name in PERMUTED:
            last, rank = order_of(one, len(shape))[-2:], len(shape)
            if last == [rank - 1, rank - 2]:
                return Needed(need.places.transposed(), need.share)
            return need if last == [rank - 2, rank - 1] else need.spread(dims)
        if name in ("slice", "select", "diagonal"):
            return Needed(EVERYWHERE, need.of_all(dims) * prod(one.output) / max(prod(shape), 1))
        if name in _MOVES:
            others = prod(one.output) * (1 - need.of_all(dims))
            return Needed(EVERYWHERE, max(0.0, 1 - others / max(prod(shape), 1)))
        if name in REDUCTIONS:
            return need.spread(dims)
        if name in PRODUCTS:
            return self._of_factor(one, ref, need)
        if name not in LOCAL and name not in ("tril", "triu"):
            return ALL if need.whole else NOTHING
        read = need.where(self._read(one, ref, dims), dims)
        return read if matrix_of(shape) == dims else read.spread(dims)

    def _read(self, one: Sized, ref: Ref, dims: Dims) -> Diagonals[bool]:
        """Where a result hangs on an operand, whatever the operand is."""
        args = one.node.args
        others = [self.values.of(arg, dims) for arg in args if arg != ref and not isinstance(arg, str)]
        match one.name:
            case "tril" | "triu":
                return triangle(one)
            case "where" | "masked_fill":
                return self._chosen(one, ref, dims)
            case "mul" | "logical_and" | "bitwise_and":
                return joint(lambda *atoms: all(solid(atom) for atom in atoms), EVERYWHERE_SOLID, *others)
            case "logical_or" | "bitwise_or":
                return joint(lambda *atoms: all(atom == 0 for atom in atoms[1:]), EVERYWHERE_SOLID, *others)
            case "add" | "sub" | "rsub":
                return joint(lambda *atoms: not any(map(swallows, atoms)), EVERYWHERE_SOLID, *others)
            case "div" if others and args[0] == ref:
                return joint(lambda atom: not swallows(atom), others[0])
            case "div" if others:
                return joint(solid, others[0])
        return EVERYWHERE

    def _chosen(self, one: Sized, ref: Ref, dims: Dims) -> Diagonals[bool]:
        condition, chosen, other = one.node.args[:3]
        if one.name == "masked_fill":
            condition, chosen, other = one.node.args[1], one.node.args[2], one.node.args[0]
        if ref == condition:
            return EVERYWHERE
        truth = self.values.of(condition, dims)
        yes = joint(lambda atom: ref == chosen and atom == 1, truth)
        no = joint(lambda atom: ref == other and atom == 0, truth)
        return joint(lambda a, b: a or b, yes, no)

    def _of_factor(self, one: Sized, ref: Ref, need: Needed) -> Needed:
        """Rows or columns of a factor with a needed result, as far as the other factor is not 0 there."""
        dims = matrix_of(one.output)
        left, right = operands_of(one)
        found = [need.spread(dims)] if ref not in (left, right) else []
        if ref == left:
            other = joint(solid, self.values.own(right))
            behind = rows_met(other, matrix_of(self.values.shapes[right.ref]))
            found.append(_factor(need, rows_met(need.places, dims), behind, other == EVERYWHERE))
        if ref == right:
            other = joint(solid, self.values.own(left))
            behind = columns_met(other, matrix_of(self.values.shapes[left.ref]))
            found.append(_factor(need, columns_met(need.places, dims), behind, other == EVERYWHERE))
        return max(found, key=lambda part: part.share)


EVERYWHERE_SOLID: Diagonals[Atom] = Diagonals((1.0,))


def _factor(need: Needed, lines: float, behind: float, other_whole: bool) -> Needed:
    """Of a factor: the share of its lines with a needed result, and of their places that meet something."""
    if need.places.uniform:
        return Needed(EVERYWHERE, need.share * lines * behind)
    return Needed(EVERYWHERE, lines) if need.share >= 1 and other_whole else NOTHING


def _piece(one: Sized, values: Values) -> Piece | None:
    """What a slice or a selection cuts out along an axis."""
    args = one.node.args
    if one.name not in ("slice", "select") or not isinstance(args[0], Ref):
        return None
    shape = values.shapes[args[0].ref]
    axis = (args[1] if len(args) > 1 and isinstance(args[1], int) else 0) % max(len(shape), 1)
    start = values.whole(args[2]) if len(args) > 2 and args[2] is not None else 0
    if start is None or (len(args) > 4 and args[4] != 1):
        return None
    start += shape[axis] if start < 0 else 0
    start = min(max(start, 0), shape[axis])
    return axis, start, start + (1 if one.name == "select" else one.output[axis])
