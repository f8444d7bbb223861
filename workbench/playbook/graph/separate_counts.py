"""Counts of places where conditions on different axes hold together: a count along each, and their product.

Owns which counts those are; rewrites.py has the rule's name. How many pixels a box has is
``((y >= y0) & (y < y1) & (x >= x0) & (x < x1)).sum((1, 2))``: its height times its width. As it is written,
every pixel of the image is asked. Of whole numbers the product is the same to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model import OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.problem.components import REDUCTIONS, reduced_axes
from workbench.problem.meeting_sizes import met_by

_SUM, _AND, _PRODUCT = "aten.sum.dim_IntList", "aten.bitwise_and.Tensor", "aten.mul.Tensor"
_ANDS = (_AND, "aten.logical_and.default")
_CASTS = ("aten._to_copy.default", "prims.convert_element_type.default")


def separate_counts(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``sum(a & b)`` as ``sum(a) * sum(b)``, where ``a`` and ``b`` are the same along the other's axes.

    A count that goes along with another reduction over the same mask is left alone.
    """
    if node.op != _SUM or node.outs[0].dtype not in ("f32", "i64"):
        return None
    made = edit.made(node.args[0])
    cast = made if made is not None and made.op in _CASTS else None
    mask = node.args[0] if cast is None else cast.args[0]
    if (
        not isinstance(mask, Ref)
        or edit.spec(mask).dtype != "bool"
        or _is_reduced_elsewhere(edit, node, mask)
    ):
        return None
    rank = len(edit.spec(mask).dims)
    conditions = [_of_rank(edit, one, rank) for one in _conditions(edit, mask)]
    parts = _parts(edit, conditions, set(reduced_axes(node, rank)))
    if len(parts) < 2:
        return None
    total, *others = [_counted(edit, node, cast, *part) for part in parts]
    for count in others:
        met = met_by([edit.spec(one).dims for one in (total, count)])
        total = edit.add(_PRODUCT, (total, count), OutputSpec(dtype=node.outs[0].dtype, dims=met), node.name)
    shaped = (total, shape_of(node.outs[0].dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shaped, "kwargs": ()})


def _conditions(edit: GraphEdit, mask: Ref) -> Iterator[Ref]:
    """What has to hold for ``mask`` to hold."""
    made = edit.made(mask)
    if made is None or made.op not in _ANDS:
        yield mask
        return
    for one in made.args:
        if isinstance(one, Ref):
            yield from _conditions(edit, one)


def _is_reduced_elsewhere(edit: GraphEdit, node: OpNode, mask: Ref) -> bool:
    """True where something else that is computed of the mask is reduced, too."""
    of_mask = {mask.ref}
    for user in edit.graph.nodes:
        if user.name == node.name or of_mask.isdisjoint(ref.ref for ref in user.refs):
            continue
        if user.base_name in REDUCTIONS:
            return True
        of_mask.add(user.name)
    return False


def _of_rank(edit: GraphEdit, condition: Ref, rank: int) -> Ref:
    """A condition with as many axes as the mask."""
    dims = edit.spec(condition).dims
    return condition if len(dims) == rank else edit.view(condition, (*[1] * (rank - len(dims)), *dims))


def _parts(edit: GraphEdit, conditions: list[Ref], axes: set[int]) -> list[tuple[set[int], list[Ref]]]:
    """Conditions that share one of the axes, together, beside all of the axes that they have."""
    parts: list[tuple[set[int], list[Ref]]] = []
    alike: list[Ref] = []
    for one in conditions:
        own = {axis for axis in axes if edit.spec(one).dims[axis] != 1}
        if not own:
            alike.append(one)
            continue
        met = [part for part in parts if part[0] & own]
        joined = own.union(*(along for along, _ in met)), [*(ref for _, refs in met for ref in refs), one]
        parts = [part for part in parts if not part[0] & own] + [joined]
    return [(along, [*alike, *refs] if place == 0 else refs) for place, (along, refs) in enumerate(parts)]


def _counted(
    edit: GraphEdit, node: OpNode, cast: OpNode | None, axes: set[int], conditions: list[Ref]
) -> Ref:
    """How often all of the conditions hold along the axes, which are kept with one place each."""
    both, *others = conditions
    for one in others:
        dims = met_by([edit.spec(ref).dims for ref in (both, one)])
        both = edit.add(_AND, (both, one), OutputSpec(dtype="bool", dims=dims))
    dims = edit.spec(both).dims
    if cast is not None:
        out = OutputSpec(dtype=cast.outs[0].dtype, dims=dims)
        both = edit.add(cast.op, (both, *cast.args[1:]), out, kwargs=cast.kwargs)
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))
    counted = (both, tuple(sorted(axes)), True)
    return edit.add(_SUM, counted, OutputSpec(dtype=node.outs[0].dtype, dims=kept), node.name, node.kwargs)
