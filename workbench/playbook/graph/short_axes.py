"""Reductions of a few elements whose results are reduced again, as arithmetic on the few.

Owns which reductions those are; rewrites.py has the rule's name. The nearest of many points is a minimum over
sums of three squares. A row has one reduction inside another only where the inner one is a number of its own:
sums of three would be written to memory, one for every pair of points, for the minimum to read.
"""

from __future__ import annotations

from workbench.model import Arg, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import VIEWS, is_pointwise
from workbench.problem.components import MOST, is_less, reduced_again, reduced_axes

_JOINS = {
    "aten.sum.dim_IntList": "aten.add.Tensor",
    "aten.prod.dim_int": "aten.mul.Tensor",
    "aten.amax.default": "aten.maximum.default",
    "aten.amin.default": "aten.minimum.default",
}
_ROUNDED = ("f16", "bf16")
_ROUNDS = ("aten.sum.dim_IntList", "aten.prod.dim_int")
"""Torch accumulates these in 32 bits; additions of 16-bit tensors would round after each."""


def short_axis(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A sum, product, maximum or minimum of up to ``MOST`` computed elements along one axis, written out."""
    operand, axis = node.args[0] if node.args else None, axis_of_few(edit, node)
    if axis is None or not isinstance(operand, Ref):
        return None
    spec, out, join = edit.spec(operand), node.outs[0], _JOINS[node.op]
    count = spec.dims[axis]
    assert isinstance(count, int)
    one = OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], *spec.dims[axis + 1 :]))
    total, *rest = (edit.add("aten.select.int", (operand, axis, at), one, "element") for at in range(count))
    for part in rest:
        total = edit.add(join, (total, part), one, f"{node.name}_of_few")
    shape: tuple[Arg, ...] = (total, shape_of(out.dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shape, "kwargs": ()})


def axis_of_few(edit: GraphEdit, node: OpNode) -> int | None:
    """The axis of such a reduction; None where it is another one."""
    operand = node.args[0] if node.args else None
    if node.op not in _JOINS or not isinstance(operand, Ref):
        return None
    spec, out = edit.spec(operand), node.outs[0]
    axes = reduced_axes(node, len(spec.dims))
    count = spec.dims[axes[0]] if len(axes) == 1 else None
    if not isinstance(count, int) or not 1 < count <= MOST or spec.dtype != out.dtype:
        return None
    if out.dtype in _ROUNDED and node.op in _ROUNDS:
        return None
    return axes[0] if _is_computed(edit, operand) and reduced_again(edit.graph, node, count) else None


def _is_computed(edit: GraphEdit, ref: Ref) -> bool:
    """True for pointwise arithmetic on smaller inputs: what lies in memory is read as it lies."""
    shape = edit.spec(ref).dims
    pending, computed, seen = [ref], False, set[str]()
    while pending:
        current = pending.pop()
        if current.item:
            return False
        made = edit.made(current)
        if made is None and not is_less(edit.spec(current).dims, shape):
            return False
        if made is None or current.ref in seen:
            continue
        seen.add(current.ref)
        if made.base_name not in VIEWS:
            if not is_pointwise(made):
                return False
            computed = True
        pending += [arg for arg in made.args if isinstance(arg, Ref)]
    return computed
