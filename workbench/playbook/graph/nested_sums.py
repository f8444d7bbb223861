"""Sums of weighted sums as one sum: what an inner sum is multiplied with is taken into it.

Owns which sums those are; rewrites.py has the rule's name. The expected place of a peak is
``(share.sum(rows) * place).sum(columns)``: by the distributive law the sum of ``share * place`` over both. As
it is written, ``share``, whose softmax goes over both axes, is computed once more for the inner sums, by a
kernel of their own. As one sum it goes along with those that the softmax needs.
"""

from __future__ import annotations

import math

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import is_pointwise
from workbench.playbook.ir.sizes import product
from workbench.problem.components import REDUCTIONS, reduced_axes

_SUM, _PRODUCT = "aten.sum.dim_IntList", "aten.mul.Tensor"
_VIEWS = frozenset(["view", "permute", "expand", "unsqueeze", "squeeze", "alias", "clone"])
_PLACES = frozenset(["arange", "full", "scalar_tensor", "iota"])
_FINITE = frozenset(["add", "sub", "mul", "neg", "convert_element_type", "_to_copy", "where"])
"""Arithmetic that leaves finite what is."""


def nested_sums(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``sum(sum(x) * weights)`` as one sum, where ``x`` is computed from reductions over both sums' axes.

    Weights that are known by place alone are finite. An infinite one would make NaN of an element that is
    zero, which the sum of its elements need not be.
    """
    weighted = edit.made(node.args[0]) if node.op == _SUM else None
    if weighted is None or weighted.op != _PRODUCT or weighted.kwargs or edit.users(weighted) != [node]:
        return None
    for inner, weights in (weighted.args[:2], weighted.args[1::-1]):
        made = edit.made(inner)
        if made is None or made.op != _SUM or edit.users(made) != [weighted]:
            continue
        if isinstance(weights, Ref) and _are_of_places(edit, weights):
            return _as_one(edit, node, made, weights)
    return None


def _as_one(edit: GraphEdit, node: OpNode, inner: OpNode, weights: Ref) -> OpNode | None:
    (operand, *_), sums = inner.args, inner.outs[0]
    assert isinstance(operand, Ref)
    x = edit.spec(operand)
    within = reduced_axes(inner, len(x.dims))
    left = [axis for axis in range(len(x.dims)) if axis not in within or len(sums.dims) == len(x.dims)]
    if {x.dtype, sums.dtype, node.outs[0].dtype} != {"f32"}:
        return None
    if len(edit.spec(weights).dims) > len(left) or not _is_made_of(edit, operand, node.outs[0].dims):
        return None
    both = {*within, *(left[axis] for axis in reduced_axes(node, len(left)))}
    along = edit.view(weights, _spread(edit.spec(weights).dims, left, len(x.dims)))
    scaled = edit.add(_PRODUCT, (operand, along), x, f"{node.name}_weighted")
    kept = tuple(dim for axis, dim in enumerate(x.dims) if axis not in both)
    total = edit.add(_SUM, (scaled, tuple(sorted(both))), OutputSpec(dtype="f32", dims=kept), node.name)
    shape: tuple[Arg, ...] = (total, shape_of(node.outs[0].dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shape, "kwargs": ()})


def _spread(dims: tuple[Dim, ...], left: list[int], count: int) -> tuple[Dim, ...]:
    """The shape of weights of inner sums as weights of what is summed, which has more axes."""
    own = dict(zip(left[len(left) - len(dims) :], dims, strict=True))
    return tuple(own.get(axis, 1) for axis in range(count))


def _is_made_of(edit: GraphEdit, operand: Ref, rows: tuple[Dim, ...]) -> bool:
    """True for arithmetic on reductions that leave as many numbers as ``rows`` has."""
    count = product(edit.sizes.shape(rows))
    found = [made for made in _below(edit, operand) if made.base_name in REDUCTIONS]
    return bool(found) and all(product(edit.sizes.shape(made.outs[0].dims)) == count for made in found)


def _are_of_places(edit: GraphEdit, weights: Ref) -> bool:
    """True for what is computed of places and numbers, finite wherever it is."""
    found = _below(edit, weights)
    if not found or any(
        made.base_name not in _PLACES | _FINITE | _VIEWS and not _is_test(made) for made in found
    ):
        return False
    numbers = [arg for made in found for arg in made.args if isinstance(arg, float)]
    names = {made.name for made in found}
    reads = {arg.ref for made in found for arg in made.args if isinstance(arg, Ref)}
    return reads <= names and all(math.isfinite(number) for number in numbers)


def _is_test(node: OpNode) -> bool:
    return node.outs[0].dtype == "bool" and is_pointwise(node)


def _below(edit: GraphEdit, ref: Ref) -> list[OpNode]:
    """The nodes that a tensor is computed of, down to reductions, inputs and all that is no arithmetic."""
    pending, found = [ref], dict[str, OpNode]()
    while pending:
        made = edit.made(pending.pop())
        if made is None or made.name in found:
            continue
        found[made.name] = made
        if is_pointwise(made) or made.base_name in _VIEWS:
            pending += [arg for arg in made.args if isinstance(arg, Ref)]
    return list(found.values())
