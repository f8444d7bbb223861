"""The largest of values that grow with an element, of which the largest is known: made of that one element.

Owns which values those are; rewrites.py has the rule's name. ``softmax(x).max()`` is one over the sum of
exponentials: the largest share is that of the largest element, which the softmax has looked for anyway. As it
is written, the shares are computed and compared in one more walk over the row, and another one writes what
depends on it. Rounding keeps the order. Whole numbers are left alone: conversions to them may wrap.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import is_float
from workbench.problem.components import reduced_axes

_LARGEST, _LARGEST_AND_PLACE = "aten.amax.default", "aten.max.dim"
_GROWING = frozenset(
    ["exp", "exp2", "expm1", "sigmoid", "tanh", "relu", "atan", "_to_copy", "clone", "alias"]
)
"""Functions of one element of any number, which give a larger one for a larger one, or the same."""
_SCALED = frozenset(["mul", "div"])
_MOST_STEPS = 8


def known_largest(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``amax(f(x, c))`` as ``f(amax(x), c)``, where ``amax(x)`` is there and ``c`` is one along the axes."""
    (operand, *_) = node.args
    if (
        node.op not in (_LARGEST, _LARGEST_AND_PLACE)
        or not isinstance(operand, Ref)
        or _is_placed(edit, node)
    ):
        return None
    x = edit.spec(operand)
    axes = reduced_axes(node, len(x.dims))
    one_each = tuple(1 if axis in axes else dim for axis, dim in enumerate(x.dims))
    steps: list[OpNode] = []
    known: Ref | None = None
    while known is None:
        made = edit.made(operand)
        if made is None or not is_float(made.outs[0].dtype):
            return None
        if len(steps) == _MOST_STEPS or (below := _grows_with(edit, made, axes)) is None:
            return None
        steps.append(made)
        operand = below
        known = _known(edit, node, operand, axes)
    value = known if edit.spec(known).dims == one_each else edit.view(known, one_each)
    for made in reversed(steps):
        args = tuple(value if arg == operand else arg for arg in made.args)
        out = OutputSpec(dtype=made.outs[0].dtype, dims=one_each)
        value = edit.add(made.op, args, out, f"{made.name}_largest", made.kwargs)
        operand = Ref(ref=made.name)
    shaped = (value, shape_of(node.outs[0].dims))
    return node.model_copy(
        update={"op": "aten.view.default", "args": shaped, "kwargs": (), "outs": node.outs[:1]}
    )


def _is_placed(edit: GraphEdit, node: OpNode) -> bool:
    """True where somebody wants to know which element is the largest."""
    place = Ref(ref=node.name, item=1)
    return place in edit.graph.outputs or any(_names(user.args, place) for user in edit.users(node) if user)


def _names(args: tuple[Arg, ...], ref: Ref) -> bool:
    return any(arg == ref or (isinstance(arg, tuple) and _names(arg, ref)) for arg in args)


def _known(edit: GraphEdit, node: OpNode, operand: Ref, axes: list[int]) -> Ref | None:
    """The largest of ``operand`` along the same axes, where an earlier node has it."""
    rank = len(edit.spec(operand).dims)
    for earlier in edit.graph.nodes:
        if earlier is node:
            return None
        if (
            earlier.op in (_LARGEST, _LARGEST_AND_PLACE)
            and earlier.args[0] == operand
            and reduced_axes(earlier, rank) == axes
        ):
            return Ref(ref=earlier.name, item=0 if earlier.op == _LARGEST_AND_PLACE else None)
    return None


def _grows_with(edit: GraphEdit, made: OpNode, axes: list[int]) -> Ref | None:
    """The operand that a result grows with; the other one is the same along the axes."""
    dims, name = made.outs[0].dims, made.base_name
    match made.args:
        case (Ref() as only, *_) if name in _GROWING and edit.spec(only).dims == dims:
            return only
        case (Ref() as left, right) if edit.spec(left).dims == dims and _is_alike(edit, right, dims, axes):
            grows = name in ("add", "sub") or (name in _SCALED and _is_positive(edit, right))
            return left if grows and not made.kwargs else None
        case (left, Ref() as right) if edit.spec(right).dims == dims and _is_alike(edit, left, dims, axes):
            grows = name == "add" or (name == "mul" and _is_positive(edit, left))
            return right if grows and not made.kwargs else None
    return None


def _is_alike(edit: GraphEdit, arg: Arg, dims: tuple[Dim, ...], axes: list[int]) -> bool:
    """True for a number, and for a tensor with one element along each of the axes."""
    if not isinstance(arg, Ref):
        return isinstance(arg, (int, float))
    own = edit.spec(arg).dims
    missing = len(dims) - len(own)
    return all(axis < missing or own[axis - missing] == 1 for axis in axes)


def _is_positive(edit: GraphEdit, arg: Arg) -> bool:
    """True for a number above zero, and for what is a sum of exponentials, or made of such by steps that
    leave it positive."""
    number = edit.constant(arg)
    if number is not None or not isinstance(arg, Ref):
        return number is not None and number > 0
    made = edit.made(arg)
    if made is None or not is_float(made.outs[0].dtype):
        return False
    name = made.base_name
    if name in ("exp", "exp2", "sigmoid"):
        return True
    if name in ("sum", "mean", "amax", "sqrt", "rsqrt", "reciprocal", "_to_copy", "view", "expand"):
        return _is_positive(edit, made.args[0])
    if name in ("add", "mul", "div") and not made.kwargs:
        return all(_is_positive(edit, one) for one in made.args)
    return False
