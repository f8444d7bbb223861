"""Sums, products and extremes of a few elements written out: operations on two elements at a time.

Owns the rule; few_axes.py says which reductions those are, few_products.py which matrix products and
few_totals.py which running totals. Without reductions a kernel has no rows: its threads take neighbours along
any axis, in vectors, and what is computed of each element needs no loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.few_products import few_products
from workbench.playbook.graph.few_totals import few_totals
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.graph.short_axes import axis_of_few
from workbench.problem.components import MOST
from workbench.problem.few_axes import few_among, few_before_rows, reduced_few

_Found = Mapping[str, tuple[tuple[Dim, ...], int]]
"""What is reduced, and along which axis, by node."""
_JOINS = {
    "sum": "aten.add.Tensor",
    "prod": "aten.mul.Tensor",
    "amax": "aten.maximum.default",
    "amin": "aten.minimum.default",
    "any": "aten.logical_or.default",
    "all": "aten.logical_and.default",
}
_TRUTHS = ("any", "all")
_ROUNDED = ("f16", "bf16")
_ROUNDS = ("sum", "prod")
"""Torch accumulates these in 32 bits; additions of 16-bit tensors would round after each."""


def few_terms(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A product or running total of few terms, or a reduction where all of the graph are so, written out."""
    if (written := few_products(edit, node) or few_totals(edit, node)) is not None:
        return written
    operand = node.args[0] if node.args else None
    if node.base_name not in _JOINS or not isinstance(operand, Ref):
        return None
    if node.base_name in _TRUTHS and node.outs[0].dtype != "bool":
        return None
    alone, among = _few(edit)
    found = alone.get(node.name)
    if found is None and axis_of_few(edit, node) is None:  # those are another rule's
        found = among.get(node.name)
    if found is None or not isinstance(found[0][found[1]], int):
        return None
    shape, axis = found
    count, out = shape[axis], node.outs[0]
    assert isinstance(count, int)
    dims = (*shape[:axis], *shape[axis + 1 :])
    rounds = out.dtype in _ROUNDED and node.base_name in _ROUNDS
    computed: DType = "f32" if rounds else out.dtype
    one = OutputSpec(dtype=edit.spec(operand).dtype, dims=dims)
    total, *rest = (
        edit.converted(edit.add("aten.select.int", (operand, axis, at), one, "element"), computed)
        for at in range(count)
    )
    for part in rest:
        total = edit.add(_JOINS[node.base_name], (total, part), OutputSpec(dtype=computed, dims=dims))
    shaped: tuple[Arg, ...] = (edit.converted(total, out.dtype), shape_of(out.dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shaped, "kwargs": ()})


@lru_cache(maxsize=1)
def _few(edit: GraphEdit) -> tuple[_Found, _Found]:
    """Reductions of few elements where all of a graph are so, and where others are not: found once for all
    nodes."""
    given = edit.graph, edit.given, edit.cases
    return reduced_few(*given), {**few_before_rows(*given), **few_among(*given, MOST)}
