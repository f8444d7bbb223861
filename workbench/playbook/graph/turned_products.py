"""Products of matrices made the other way round, where whoever reads one wants it turned.

Owns the rule. ``(a @ b).T`` is ``b.T @ a.T``: a library reads either operand as it lies, and writes rows.
"""

from __future__ import annotations

from workbench.model import Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit

_TURN = "aten.permute.default"
_AXES = {"aten.mm.default": (1, 0), "aten.bmm.default": (0, 2, 1)}
"""How each product's result is turned."""


def turned_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A turned product as the product of the turned operands, where nobody else reads it.

    Not where it is the problem's output, whose elements lie as the reference's do, nor of a vector, which
    is no library call.
    """
    match node:
        case OpNode(op=op, args=(Ref() as product, axes), outs=(out,)) if op == _TURN:
            made = edit.made(product)
        case _:
            return None
    turn = None if made is None else _AXES.get(made.op)
    if made is None or turn is None or axes != turn or 1 in out.dims:
        return None
    if len(edit.users(made)) != 1 or None in edit.users(node):
        return None
    left, right = made.args
    assert isinstance(left, Ref) and isinstance(right, Ref)
    operands = tuple(_turned(edit, operand, turn) for operand in (right, left))
    rows = OutputSpec(dtype=out.dtype, dims=out.dims)
    return node.model_copy(update={"op": made.op, "args": operands, "kwargs": (), "outs": (rows,)})


def _turned(edit: GraphEdit, operand: Ref, axes: tuple[int, ...]) -> Ref:
    """An operand turned; as it was before it was turned, if it is."""
    made = edit.made(operand)
    if made is not None and made.op == _TURN and made.args[1:] == (axes,):
        before = made.args[0]
        assert isinstance(before, Ref)
        return before
    spec = edit.spec(operand)
    dims: tuple[Dim, ...] = tuple(spec.dims[axis] for axis in axes)
    return edit.add(_TURN, (operand, axes), OutputSpec(dtype=spec.dtype, dims=dims), "turned")
