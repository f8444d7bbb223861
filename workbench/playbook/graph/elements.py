"""What a tensor has at known places, found in what it is made of rather than in itself.

The factor of a small matrix is put together of its elements, seen as rows and columns, turned, added to, and
then its second row's first element is taken. The state of a simulation is stacked at the end of each step and
taken apart at the beginning of the next. Owns the walk from such a place back to the element: through views,
changes of axes, concatenations and what is computed element by element. Knows nothing of what is rewritten;
parts_of_joined.py has the rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import RESULTS, GraphEdit, argument, shape_of
from workbench.playbook.graph.joined_last import stacked_along
from workbench.playbook.graph.put_steps import put_at
from workbench.playbook.ir.operations import VIEWS, is_pointwise
from workbench.playbook.ir.sizes import Sizes, product


@dataclass(frozen=True)
class Merged:
    """Along an axis that is seen as several: their sizes, and a place along each."""

    dims: tuple[Dim, ...]
    places: Places


Place = int | None | Merged
Places = tuple[Place, ...]
"""One an axis, from the front: where a tensor is wanted, or None for all along the axis."""
Key = tuple[Ref, Places]
_AS_IT_IS = frozenset(["alias", "clone"])
_SEEN = VIEWS | {"diagonal", "flip"}
"""What has the elements of its operand, or some of them."""
_DEEPEST = 120
"""Operations from a place back to its element."""


class Elements:
    """Those of one graph, looked for node by node in its order: what is found is there for all later ones.

    Where not ``everything`` is looked for, a place leads to an element only where something is joined or
    computed of what is joined on the way. Otherwise arithmetic is done at the place, whatever it is made of,
    and where it begins an element is taken out of the tensor that has it.
    """

    def __init__(self, edit: GraphEdit, everything: bool = False) -> None:
        self.edit = edit
        self._everything = everything
        self._found: dict[Key, Ref] = {}
        self._seen: dict[Key, Ref | None] = {}
        """Those of this walk, whose nodes are not in the graph yet."""
        self._deep = 0
        self._single = frozenset[str]() if everything else _of_single_elements(edit)

    def at(self, ref: Ref, places: Places) -> Ref | None:
        """The tensor without the axes that have a place.

        None where nothing is joined on the way to it, unless ``everything`` is looked for.
        """
        self._seen = {}
        found = self._at(ref, places)
        if found is not None:
            self._found.update((key, one) for key, one in self._seen.items() if one is not None)
        return found

    def _at(self, ref: Ref, places: Places) -> Ref | None:
        key = ref, places
        if key in self._found:
            return self._found[key]
        if places.count(None) == len(places) and not self._everything:
            return None
        if key not in self._seen:
            self._deep += 1
            found = self._made_at(ref, places)
            self._deep -= 1
            if found is None and self._everything:
                found = self._taken(ref, places)
            self._seen[key] = None if found is None else self._shaped(found, ref, places)
        return self._seen[key]

    def _made_at(self, ref: Ref, places: Places) -> Ref | None:
        if self._everything and (piece := self.edit.piece_of(ref)) is not None:
            of, axis, first = piece
            there = places[axis]
            whole = (*places[:axis], first + there, *places[axis + 1 :]) if isinstance(there, int) else None
            return None if whole is None else self._at(of, whole)
        made = self.edit.made(ref)
        if made is None or self._deep > _DEEPEST:
            return None
        dims = self.edit.spec(ref).dims
        single = tuple(0 if dim == 1 else place for dim, place in zip(dims, places, strict=True))
        return self._of(made, single)

    def _of(self, node: OpNode, places: Places) -> Ref | None:
        match node.base_name, node.args:
            case name, (Ref() as of, *_) if name in _AS_IT_IS:
                return self._at(of, places)
            case "select", (Ref() as of, int() as axis, int() as place):
                axis %= len(places) + 1
                first = from_the_front(self.edit, of, axis, place)
                return None if first is None else self._at(of, (*places[:axis], first, *places[axis:]))
            case "slice", (Ref() as of, int() as axis, *_):
                return self._sliced(node, of, axis % len(places), places)
            case "diagonal", (Ref() as of, *_):
                return self._on_diagonal(of, node, places)
            case "flip", (Ref() as of, (*axes,)):
                return self._turned_over(of, axes, places)
            case "permute", (Ref() as of, (*axes,)):
                return self._turned(of, [axis % len(axes) for axis in axes if isinstance(axis, int)], places)
            case "view", (Ref() as of, *_):
                if (part := self._stacked(node, places)) is not None:
                    return part
                before = seen_before(self.edit.sizes, self.edit.spec(of).dims, node.outs[0].dims, places)
                return None if before is None else self._at(of, before)
            case "expand", (Ref() as of, *_):
                return self._at(of, self._spread(of, node.outs[0].dims, places))
            case "cat", ((*parts,), *_):
                return self._joined(node, parts, places)
            case "copy", (Ref(), Ref() as of, *_) if self._everything:
                return self._put(node, of, node.outs[0].dims, places)
            case "slice_scatter", (Ref() as of, Ref() as part, *_) if self._everything:
                return self._put_along(node, of, part, places)
            case "where", (_, _, Ref() as of) if self._everything and (put := put_at(self.edit, node)):
                if isinstance(there := places[put.axis], int):
                    if there != put.place:
                        return self._at(of, places)
                    dims, left = list(node.outs[0].dims), list(places)
                    del dims[put.axis], left[put.axis]
                    return self._put(node, put.value, tuple(dims), tuple(left))
        return self._computed(node, places) if is_pointwise(node) else None

    def _sliced(self, node: OpNode, of: Ref, axis: int, places: Places) -> Ref | None:
        """Along an axis that is left, the slice of an element."""
        start, there = node.args[2] if len(node.args) > 2 else 0, places[axis]
        if there is None:
            element = self._at(of, places)
            if element is None:
                return None
            left = len(_left(self.edit.spec(of).dims[:axis], places[:axis]))
            out = OutputSpec(dtype=node.outs[0].dtype, dims=_left(node.outs[0].dims, places))
            return self.edit.add(node.op, (element, left, *node.args[2:]), out, "element", node.kwargs)
        first = from_the_front(self.edit, of, axis, start) if isinstance(start, int) else None
        if first is None or not isinstance(there, int) or not is_in_steps_of_one(node):
            return None
        return self._at(of, (*places[:axis], first + there, *places[axis + 1 :]))

    def _on_diagonal(self, of: Ref, node: OpNode, places: Places) -> Ref | None:
        *others, place = places
        named, rank = dict(node.kwargs), len(places) + 1
        offset, first, second = (
            argument(node, named, at, name, default)
            for at, (name, default) in enumerate((("offset", 0), ("dim1", 0), ("dim2", 1)), 1)
        )
        assert isinstance(offset, int) and isinstance(first, int) and isinstance(second, int)
        if not isinstance(place, int):
            return None
        found, left = (
            {first % rank: place - min(offset, 0), second % rank: place + max(offset, 0)},
            iter(others),
        )
        return self._at(of, tuple(found[axis] if axis in found else next(left) for axis in range(rank)))

    def _turned_over(self, of: Ref, axes: Sequence[Arg], places: Places) -> Ref | None:
        """None where an axis that is left is turned over, or is of a length that nobody knows."""
        dims, found = self.edit.spec(of).dims, list(places)
        for axis in (axis for axis in axes if isinstance(axis, int)):
            length, place = dims[axis], places[axis]
            if not isinstance(length, int) or not isinstance(place, int):
                return None
            found[axis] = length - 1 - place
        return self._at(of, tuple(found))

    def _turned(self, of: Ref, axes: list[int], places: Places) -> Ref | None:
        """None where two axes that are left change places: that is another tensor."""
        left = [axis for axis, place in zip(axes, places, strict=True) if not isinstance(place, int)]
        if left != sorted(left):
            return None
        turned = dict(zip(axes, places, strict=True))
        return self._at(of, tuple(turned[axis] for axis in range(len(axes))))

    def _joined(self, node: OpNode, parts: Sequence[Arg], places: Places) -> Ref | None:
        axis = joined_along(node)
        place = places[axis]
        if not isinstance(place, int):
            return None
        for part in parts:
            assert isinstance(part, Ref)
            count = self.edit.spec(part).dims[axis]
            if not isinstance(count, int):
                return None
            if place < count:
                there = (*places[:axis], place, *places[axis + 1 :])
                found = self._at(part, there) or self._taken(part, there)
                return self.edit.converted(found, node.outs[0].dtype)  # parts may be of several types
            place -= count
        return None

    def _stacked(self, node: OpNode, places: Places) -> Ref | None:
        """Of a concatenation that is seen with an axis more, of one element a part."""
        for axis, place in enumerate(places):
            if isinstance(place, int) and (parts := stacked_along(self.edit, node, axis - len(places))):
                left = (*places[:axis], *places[axis + 1 :])
                found = self._at(parts[place], left) or self._taken(parts[place], left)
                return self.edit.converted(found, node.outs[0].dtype)
        return None

    def _put_along(self, node: OpNode, of: Ref, part: Ref, places: Places) -> Ref | None:
        """What was written over a slice of neighbours, or over all: that, or what was there before."""
        if self.edit.spec(part).dims == node.outs[0].dims:
            return self._put(node, part, node.outs[0].dims, places)
        axis, first, _, step = (
            argument(node, dict(node.kwargs), at, name, default)
            for at, (name, default) in enumerate((("dim", 0), ("start", 0), ("end", None), ("step", 1)), 2)
        )
        assert isinstance(axis, int)
        axis %= len(places)
        there, count = places[axis], self.edit.spec(part).dims[axis]
        first = 0 if first is None else first
        start = from_the_front(self.edit, of, axis, first) if isinstance(first, int) else None
        if start is None or not isinstance(there, int) or not isinstance(count, int) or step != 1:
            return None
        if not 0 <= there - start < count:
            return self._at(of, places)
        return self._put(
            node, part, self.edit.spec(part).dims, (*places[:axis], there - start, *places[axis + 1 :])
        )

    def _put(self, node: OpNode, of: Ref, dims: tuple[Dim, ...], places: Places) -> Ref | None:
        """In the type of where it goes; ``dims`` are of all that it is put at."""
        there = self._spread(of, dims, places)
        found = self._at(of, there)
        return None if found is None else self.edit.converted(found, node.outs[0].dtype)

    def _computed(self, node: OpNode, places: Places) -> Ref | None:
        """The same arithmetic on elements, where one of the operands is joined of them one by one: of longer
        parts, as a row that is rolled is, the border alone would be computed twice."""
        if not self._everything and not any(ref.ref in self._single for ref in node.refs):
            return None
        operands = {ref: self._spread(ref, node.outs[0].dims, places) for ref in node.refs}
        elements = {ref: self._at(ref, there) for ref, there in operands.items()}
        if not self._everything and not any(elements.values()):
            return None
        taken = {ref: elements[ref] or self._taken(ref, there) for ref, there in operands.items()}
        args = tuple(taken[arg] if isinstance(arg, Ref) else arg for arg in node.args)
        kwargs = tuple((name, taken[arg] if isinstance(arg, Ref) else arg) for name, arg in node.kwargs)
        out = OutputSpec(dtype=node.outs[0].dtype, dims=_left(node.outs[0].dims, places))
        return self.edit.add(node.op, args, out, "element", kwargs)

    def _spread(self, of: Ref, dims: tuple[Dim, ...], places: Places) -> Places:
        """Places in an operand of a tensor of such dimensions; it may have fewer axes, or one element along
        some."""
        own = self.edit.spec(of).dims
        first = len(dims) - len(own)
        pairs = zip(own, dims[first:], places[first:], strict=True)
        return tuple(_of_one(place) if dim == 1 != whole else place for dim, whole, place in pairs)

    def _taken(self, of: Ref, places: Places) -> Ref:
        """Out of the tensor itself."""
        if any(isinstance(place, Merged) for place in places):
            dims, places = _apart(self.edit.spec(of).dims, places)
            of = self.edit.view(of, dims)
        for axis in reversed(range(len(places))):
            place, dims = places[axis], self.edit.spec(of).dims
            if isinstance(place, int):
                left = (*dims[:axis], *dims[axis + 1 :])
                out = OutputSpec(dtype=self.edit.spec(of).dtype, dims=left)
                if dims[axis] == 1:
                    of = self.edit.view(of, left)
                else:
                    of = self.edit.add("aten.select.int", (of, axis, place), out, "element")
        return of

    def _shaped(self, found: Ref, ref: Ref, places: Places) -> Ref:
        """With the axes that are left, of which views add and drop those of one element."""
        wanted, dims = _left(self.edit.spec(ref).dims, places), self.edit.spec(found).dims
        if dims == wanted:
            return found
        sizes = self.edit.sizes
        if product(sizes.shape(dims)) == product(sizes.shape(wanted)):
            return self.edit.view(found, wanted)
        out = OutputSpec(dtype=self.edit.spec(found).dtype, dims=wanted)
        return self.edit.add("aten.expand.default", (found, shape_of(wanted)), out)


def _of_single_elements(edit: GraphEdit) -> frozenset[str]:
    """Nodes that are concatenations of single elements, or seen or computed of these."""
    found = set[str]()
    for node in edit.graph.nodes:
        match node.base_name, node.args:
            case "cat", ((*parts,), *_):
                axis = joined_along(node)
                if all(isinstance(part, Ref) and edit.spec(part).dims[axis] == 1 for part in parts):
                    found.add(node.name)
            case _ if node.base_name in _SEEN or node.op == RESULTS or is_pointwise(node):
                if any(ref.ref in found for ref in node.refs):
                    found.add(node.name)
    return frozenset(found)


def _left(dims: Sequence[Dim], places: Places) -> tuple[Dim, ...]:
    dims, places = _apart(dims, places)
    return tuple(dim for dim, place in zip(dims, places, strict=True) if place is None)


def _apart(dims: Sequence[Dim], places: Places) -> tuple[tuple[Dim, ...], Places]:
    """With the axes that merged ones are seen as."""
    pairs = list(zip(dims, places, strict=True))
    found = [
        (place.dims, place.places) if isinstance(place, Merged) else ((dim,), (place,))
        for dim, place in pairs
    ]
    return tuple(dim for some, _ in found for dim in some), tuple(
        place for _, some in found for place in some
    )


def _of_one(place: Place) -> Place:
    """The same along an axis of one element."""
    match place:
        case Merged(places=places):
            return Merged((1,) * len(places), tuple(map(_of_one, places)))
        case int():
            return 0
    return None


def joined_along(node: OpNode) -> int:
    """The axis of a concatenation, from the front."""
    axis = node.args[1] if len(node.args) > 1 else 0
    assert isinstance(axis, int)
    return axis % len(node.outs[0].dims)


def from_the_front(edit: GraphEdit, ref: Ref, axis: int, place: int) -> int | None:
    """A place counted from the first element; None where it is counted from an end that nobody knows."""
    length = edit.spec(ref).dims[axis]
    if place >= 0:
        return place
    return place + length if isinstance(length, int) else None


def seen_before(sizes: Sizes, before: Sequence[Dim], after: Sequence[Dim], places: Places) -> Places | None:
    """The places in a tensor of the shape ``before`` that is seen as ``after``; None where axes are merged or
    split otherwise than a place along one of them can say."""
    after, places = _apart(after, places)
    found: list[Place] = []
    at = along = 0
    while at < len(before) or along < len(after):
        if at < len(before) and along < len(after) and before[at] == after[along]:
            found.append(places[along])
            at, along = at + 1, along + 1
            continue
        if at < len(before) and before[at] == 1:
            found.append(0)
            at += 1
            continue
        if along < len(after) and after[along] == 1:
            along += 1
            continue
        group = _group(sizes, before[at:], after[along:])
        if group is None:
            return None
        taken, seen = group
        inner = _through(before[at : at + taken], after[along : along + seen], places[along : along + seen])
        if inner is None:
            return None
        found += inner
        at, along = at + taken, along + seen
    return tuple(found)


def _group(sizes: Sizes, before: Sequence[Dim], after: Sequence[Dim]) -> tuple[int, int] | None:
    """How many of the first axes of each have as many elements together; None where that is not known."""
    counts = [
        [product(sizes.shape(dims[:count])) for count in range(1, len(dims) + 1)] for dims in (before, after)
    ]
    for together in range(2, len(before) + len(after) + 1):
        for taken in range(max(1, together - len(after)), min(together, len(before) + 1)):
            if counts[0][taken - 1] == counts[1][together - taken - 1]:
                return taken, together - taken
    return None


def _through(before: Sequence[Dim], after: tuple[Dim, ...], places: Places) -> list[Place] | None:
    if all(place is None for place in places):
        return [None] * len(before)
    if any(place is None for place in places) or not all(isinstance(dim, int) for dim in (*before, *after)):
        return [Merged(after, places)] if len(before) == 1 else None
    flat = 0
    for dim, place in zip(after, places, strict=True):
        assert isinstance(dim, int) and isinstance(place, int)
        flat = flat * dim + place
    found: list[Place] = []
    for dim in reversed(before):
        assert isinstance(dim, int)
        found.append(flat % dim)
        flat //= dim
    return found[::-1]


def is_in_steps_of_one(node: OpNode) -> bool:
    """True for a slice of neighbours."""
    return node.args[4:] in ((), (1,)) and dict(node.kwargs).get("step", 1) == 1
