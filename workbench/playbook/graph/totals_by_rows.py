"""Totals of what rows are reduced over as well: reduced row by row first, and the rows' results then.

A loss is a mean over all tokens, and beside it stand the lengths of its sequences, their mean divergence, how
many of their tokens were clipped. A total has no rows, so that a kernel of its own would read all that the
kernel of rows reads. Reduced row by row, it is one number more that each row has at hand, and a total of few.
Owns which totals those are; rewrites.py has the rule's name.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import VIEWS, is_pointwise
from workbench.playbook.ir.sizes import Size, product
from workbench.problem.components import REDUCTIONS, reduced_axes

_SUM = "aten.sum.dim_IntList"
_TOTALS = frozenset([_SUM, "aten.amax.default", "aten.amin.default"])
_ROUNDED = ("f16", "bf16")


def totals_by_rows(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A sum, maximum or minimum over all axes of others and more, of a tensor that they read too."""
    operand = node.args[0] if node.op in _TOTALS and not node.kwargs else None
    if not isinstance(operand, Ref):
        return None
    spec, out = edit.spec(operand), node.outs[0]
    if node.op == _SUM and out.dtype in _ROUNDED:  # torch adds these up in 32 bits; a row's sum would round
        return None
    axes = reduced_axes(node, len(spec.dims))
    read = set(_read(edit, operand)) if len(axes) > 1 else set[str]()
    within = next(_within(edit, spec.dims, axes, read), None) if read else None
    if within is None:
        return None
    left = [axis for axis in range(len(spec.dims)) if axis not in within]
    rows = OutputSpec(dtype=out.dtype, dims=tuple(spec.dims[axis] for axis in left))
    by_rows = edit.add(node.op, (operand, within), rows, f"{node.name}_by_rows")
    rest = tuple(position for position, axis in enumerate(left) if axis in axes)
    dims = tuple(dim for position, dim in enumerate(rows.dims) if position not in rest)
    total = edit.add(node.op, (by_rows, rest), OutputSpec(dtype=out.dtype, dims=dims), f"{node.name}_total")
    shape: tuple[Arg, ...] = (total, shape_of(out.dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shape, "kwargs": ()})


def _within(
    edit: GraphEdit, dims: tuple[Dim, ...], axes: list[int], read: set[str]
) -> Iterator[tuple[int, ...]]:
    """Axes of other reductions of as many elements that read the same, fewer than ``axes`` and among them."""
    for other in edit.graph.nodes:
        operand = other.args[0] if other.base_name in REDUCTIONS and other.args else None
        if not isinstance(operand, Ref) or edit.spec(operand).dims != dims:
            continue
        within = tuple(reduced_axes(other, len(dims)))
        if set(within) < set(axes) and not read.isdisjoint(_read(edit, operand)):
            yield within


def _read(edit: GraphEdit, operand: Ref) -> list[str]:
    """Tensors as large as what is reduced that it is computed of; none where as many elements are reduced on
    the way: then it has rows already."""
    count = _elements(edit, operand)
    pending, seen, found = [operand], set[str](), list[str]()
    while pending:
        ref = pending.pop()
        if ref.ref in seen:
            continue
        seen.add(ref.ref)
        made = edit.made(ref)
        refs = [] if made is None else [arg for arg in made.args if isinstance(arg, Ref)]
        if made is not None and made.base_name in REDUCTIONS:
            if any(_elements(edit, one) == count for one in refs):
                return []
        elif made is not None and (is_pointwise(made) or made.base_name in VIEWS):
            pending += refs
        elif _elements(edit, ref) == count:
            found.append(ref.ref)
    return found


def _elements(edit: GraphEdit, ref: Ref) -> Size:
    return product(edit.sizes.shape(edit.spec(ref).dims))
