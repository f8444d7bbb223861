"""What running a problem at one case costs: elements touched and multiplications.

Pure arithmetic on the op graph and size expressions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from workbench.model import Dim, OpNode, Problem, Ref, size_of
from workbench.model.aten_names import RECURRENT

_PRODUCTS = {"mm": 1, "bmm": 1, "addmm": 2, "baddbmm": 2, "mv": 0, "convolution": 1}
"""Position of the operand whose sizes tell how many multiplications make one result."""
_LIBRARY_SHARE = 4
"""A convolution is left to a library, which is faster than an emulated loop by more than this."""
_OF_A_ROW, _OF_A_STEP = 2**13, 2**15
"""Of one unit of a recurrent layer, for each row of the batch and for each step, beside its products: lanes
join sums, and blocks wait for one another."""


def elements(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Of all tensor arguments and outputs together, or of the largest intermediate result."""
    outside = [*(spec.dims for spec in problem.tensors), *(out.dims for out in problem.outputs)]
    inside = [out.dims for node in problem.graph.nodes for out in node.outs]
    return max(sum(_count(dims, sizes) for dims in outside), *(_count(d, sizes) for d in inside), 0)


def fixed_elements(problem: Problem) -> int:
    """Of the arguments whose size cannot vary."""
    fixed = [spec.dims for spec in problem.tensors if not any(isinstance(dim, str) for dim in spec.dims)]
    return sum(_count(dims, {}) for dims in fixed)


def multiplications(problem: Problem, sizes: Mapping[str, int]) -> int:
    """Of matrix products, convolutions and recurrent layers; everything else costs its elements."""
    dims: dict[str, tuple[Dim, ...]] = {spec.name: spec.dims for spec in problem.tensors}
    total = 0
    for node in problem.graph.nodes:
        total += _of_node(node, dims, sizes)
        dims[node.name] = node.outs[0].dims
    return total


def _of_node(node: OpNode, dims: Mapping[str, tuple[Dim, ...]], sizes: Mapping[str, int]) -> int:
    kind = node.base_name
    if kind in RECURRENT:
        return _of_layers(node, dims, sizes)
    if kind not in _PRODUCTS or len(node.args) <= _PRODUCTS[kind]:
        return 0
    operand = node.args[_PRODUCTS[kind]]
    if not isinstance(operand, Ref):
        return 0
    shape = dims.get(operand.ref, ())
    results = _count(node.outs[0].dims, sizes)
    if kind == "convolution":
        return results * _count(shape[1:], sizes) // _LIBRARY_SHARE
    inner = shape[-1] if kind == "mv" else shape[-2]
    return results * size_of(inner, sizes)


def _of_layers(node: OpNode, dims: Mapping[str, tuple[Dim, ...]], sizes: Mapping[str, int]) -> int:
    """Every row of the batch meets all weights at each step, and all units have something to do."""
    params = node.args[2]
    assert isinstance(params, tuple)
    weights = [dims[one.ref] for one in params if isinstance(one, Ref) and len(dims[one.ref]) > 1]
    units = math.prod(size_of(dim, sizes) for dim in node.outs[1].dims)
    batch = max(1, size_of(node.outs[1].dims[1], sizes))
    rows, units = _count(node.outs[0].dims[:2], sizes), units // batch
    products = rows * sum(_count(one, sizes) for one in weights)
    return products + rows * units * _OF_A_ROW + rows // batch * units * _OF_A_STEP


def _count(dims: tuple[Dim, ...], sizes: Mapping[str, int]) -> int:
    return math.prod(size_of(dim, sizes) for dim in dims)
