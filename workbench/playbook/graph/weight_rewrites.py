"""Rewrites of matrix products whose operands know more than numbers: diagonals, scales, affine tails.

Owns the rules; rewrites.py owns their names and order. Whether the numbers stay within the bound is the
referee's to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref, Sym
from workbench.playbook.graph.graph_edit import GraphEdit
from workbench.playbook.graph.tail_rewrites import has_tail

_PRODUCTS = frozenset(["aten.mm.default", "aten.bmm.default"])
_SEEN_THROUGH = frozenset(["aten.view.default", "aten.expand.default", "aten.permute.default"])
_CONSUMERS = frozenset(
    ["aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.convolution.default"]
)

# ------------------------------------------------------------------------------------ diagonals


def diagonal_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``diag(d) @ B`` as ``d[:, None] * B``, and ``B @ diag(d)`` as ``B * d``.

    The product multiplies everything else with zero, which is NaN for infinities and NaN: so it is here.
    """
    match node:
        case OpNode(op="aten.mm.default", args=(Ref() as left, Ref() as right)):
            pass
        case _:
            return None
    if (diagonal := _diagonal(edit, left)) is not None:
        factor = edit.view(diagonal, (edit.spec(left).dims[0], 1))
        other, along = right, 0
    elif (diagonal := _diagonal(edit, right)) is not None:
        factor = edit.view(diagonal, (1, edit.spec(right).dims[0]))
        other, along = left, 1
    else:
        return None
    out = node.outs[0]
    scaled = edit.add("aten.mul.Tensor", (other, factor), out, f"{node.name}_scaled")
    args = (_poisoned(edit, other, along), math.nan, scaled)
    return node.model_copy(update={"op": "aten.where.self", "args": args, "kwargs": ()})


def _poisoned(edit: GraphEdit, ref: Ref, along: int) -> Ref:
    """True where anything but the element itself, in its column or row, is not finite."""
    spec = edit.spec(ref)
    rows, columns = spec.dims
    truth = OutputSpec(dtype="bool", dims=spec.dims)
    line = OutputSpec(dtype="f32", dims=(1, columns) if along == 0 else (rows, 1))
    whole = OutputSpec(dtype="f32", dims=spec.dims)
    nothing = edit.add("aten.mul.Tensor", (ref, 0.0), spec)
    odd = edit.add("aten.ne.Scalar", (nothing, 0.0), truth)
    one = edit.add("aten.where.self", (odd, 1.0, 0.0), whole)
    every = edit.add("aten.sum.dim_IntList", (one, (along,), True), line)
    others = edit.add("aten.sub.Tensor", (every, one), whole)
    return edit.add("aten.gt.Scalar", (others, 0.0), truth)


def _diagonal(edit: GraphEdit, ref: Ref) -> Ref | None:
    """What stands on the diagonal of a matrix that is made of nothing else."""
    match edit.made(ref):
        case OpNode(op="aten.where.self", args=(condition, Ref() as value, other)):
            pass
        case _:
            return None
    rows, columns = edit.spec(ref).dims if len(edit.spec(ref).dims) == 2 else (None, None)
    if rows is None or rows != columns or not (edit.constant(other) == 0.0 and _on_diagonal(edit, condition)):
        return None
    line = edit.spec(value).dims in ((1, rows), (rows, 1), (rows,))
    return value if line and edit.spec(value).dtype == edit.spec(ref).dtype else None


def _on_diagonal(edit: GraphEdit, condition: Arg) -> bool:
    """True for ``arange(n) == arange(n)[:, None]``."""
    match edit.made(condition):
        case OpNode(op="aten.eq.Tensor", args=(Ref() as one, Ref() as other)):
            upright = [
                len(edit.spec(side).dims) == 2 and edit.spec(side).dims[1] == 1 for side in (one, other)
            ]
            return sum(upright) == 1 and _counts(edit, one) and _counts(edit, other)
    return False


def _counts(edit: GraphEdit, ref: Ref) -> bool:
    match edit.made(ref):
        case OpNode(op="aten.view.default", args=(Ref() as inner, *_)):
            return _counts(edit, inner)
        case OpNode(op="aten.arange.start_step", args=(0, _)):
            return True
    return False


# ------------------------------------------------------------------------------------ scales


def scale_in_tail(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``(x * 0.125) @ w`` as ``(x @ w) * 0.125`` where a kernel follows anyway."""
    if node.op not in _PRODUCTS or not has_tail(edit, node) or node.outs[0].dtype != "f32":
        return None
    for place, arg in enumerate(node.args):
        chain = _scaled(edit, node, arg)
        if chain is None:
            continue
        scaling, between = chain
        bare = scaling.args[0]
        for step in between:
            bare = edit.add(step.op, (bare, *step.args[1:]), step.outs[0], f"{step.name}_bare")
        args = tuple(bare if i == place else other for i, other in enumerate(node.args))
        product = edit.add(node.op, args, node.outs[0], f"{node.name}_product")
        update = {"op": scaling.op, "args": (product, scaling.args[1]), "kwargs": ()}
        return node.model_copy(update=update)
    return None


def _scaled(edit: GraphEdit, user: OpNode, arg: Arg) -> tuple[OpNode, list[OpNode]] | None:
    """The scaling behind an operand, and the views between, innermost first; nobody else reads them."""
    between: list[OpNode] = []
    made = edit.made(arg)
    while made is not None and edit.users(made) == [user]:
        if made.op in _SEEN_THROUGH:
            between.insert(0, made)
            user, made = made, edit.made(made.args[0])
            continue
        scales = made.op in ("aten.mul.Tensor", "aten.mul.Scalar", "aten.div.Tensor") and not made.kwargs
        number = len(made.args) == 2 and isinstance(made.args[1], (int, float))
        plain = isinstance(made.args[0], Ref) and made.outs[0].dtype == "f32"
        return (made, between) if scales and number and plain else None
    return None


# ------------------------------------------------------------------------------------ affine tails


def affine_in_weights(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``(x @ w - m) * s + b`` as one product with ``w * s``, where no kernel follows: batch norm, folded.

    Only for matrix products: a convolution's library would add the shift in a pass of its own, which is what
    the tail costs.
    """
    users = edit.users(node)
    if not users or any(user is not None and user.op not in _CONSUMERS for user in users):
        return None
    chain = _affine_chain(edit, node)
    if chain is None:
        return None
    product, steps = chain
    left, right = product.args
    assert isinstance(left, Ref) and isinstance(right, Ref)
    scale, shift = _folded(edit, steps, node.outs[0].dims[-1])
    if scale is None:
        return None
    out = edit.spec(right)
    weights = edit.add("aten.mul.Tensor", (right, scale), out, "folded_weights")
    if shift is None:
        return node.model_copy(update={"op": product.op, "args": (left, weights), "kwargs": ()})
    update = {"op": "aten.addmm.default", "args": (shift, left, weights), "kwargs": ()}
    return node.model_copy(update=update)


_AFFINE = {"aten.mul.Tensor", "aten.div.Tensor", "aten.add.Tensor", "aten.sub.Tensor"}


def _affine_chain(edit: GraphEdit, node: OpNode) -> tuple[OpNode, list[OpNode]] | None:
    """The product behind a chain of steps with a value a column each, and the steps, innermost first."""
    steps: list[OpNode] = []
    at: OpNode | None = node
    while at is not None and at.op in _AFFINE and not at.kwargs and at.outs[0].dtype == "f32":
        if not (steps == [] or edit.users(at) == [steps[0]]) or len(at.args) != 2:
            return None
        if not _is_line(edit, at.args[1], at.outs[0].dims):
            return None
        steps.insert(0, at)
        at = edit.made(at.args[0])
    if at is None or at.op != "aten.mm.default" or not steps or edit.users(at) != [steps[0]]:
        return None
    return None if 1 in at.outs[0].dims else (at, steps)


def _is_line(edit: GraphEdit, arg: Arg, dims: Sequence[Dim]) -> bool:
    """True for a number, or a value a column."""
    if not isinstance(arg, Ref):
        return isinstance(arg, (int, float, Sym)) and not isinstance(arg, bool)
    spec = edit.spec(arg)
    last = tuple(dims[-1:])
    return spec.dtype == "f32" and spec.dims in ((), last, (1, *last))


def _folded(edit: GraphEdit, steps: Sequence[OpNode], columns: Dim) -> tuple[Ref | None, Ref | None]:
    """What the weights are multiplied with, and what is added: one value a column each."""
    line = OutputSpec(dtype="f32", dims=(columns,))
    scale: Ref | None = None
    shift: Ref | None = None
    for step in steps:
        value = _as_line(edit, step.args[1], line)
        if step.op in ("aten.add.Tensor", "aten.sub.Tensor"):
            zero = (
                shift if shift is not None else edit.add("aten.full.default", (_length(columns), 0.0), line)
            )
            shift = edit.add(step.op, (zero, value), line)
            continue
        one = scale if scale is not None else edit.add("aten.full.default", (_length(columns), 1.0), line)
        scale = edit.add(step.op, (one, value), line)
        shift = None if shift is None else edit.add(step.op, (shift, value), line)
    return scale, shift


def _as_line(edit: GraphEdit, arg: Arg, line: OutputSpec) -> Arg:
    if isinstance(arg, Ref) and len(edit.spec(arg).dims) == 2:
        return edit.view(arg, line.dims)
    return arg


def _length(columns: Dim) -> tuple[Arg, ...]:
    return (Sym(sym=columns) if isinstance(columns, str) else columns,)
