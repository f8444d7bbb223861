"""Convolutions with one number everywhere: sums along one axis after the other.

Owns which convolutions those are; rewrites.py has the rule's name. How alike two volumes are near each voxel
is told by sums over boxes of 9 by 9 by 9: a convolution with ones, as it is written, with 729 products a
voxel. Added up along a line first, then lines, then planes, it is three times nine terms.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit

_POOLS = {2: "aten.avg_pool2d.default", 3: "aten.avg_pool3d.default"}
_LEADING = 2
"""Axes before those that windows go along: of the batch and the channels."""
_MOVED = frozenset(["view", "expand", "reshape", "unsqueeze", "alias", "clone", "permute", "repeat"])


def box_sum(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A convolution of each channel by itself whose weights are all the same number, in 32 bits."""
    if node.op != "aten.convolution.default" or node.outs[0].dtype != "f32":
        return None
    x, weight, bias, strides, paddings, dilations, transposed, _, groups = node.args
    if not isinstance(x, Ref) or not isinstance(weight, Ref) or bias is not None or transposed:
        return None
    count, channels, *sizes = edit.spec(weight).dims
    number = _everywhere(edit, weight)
    if number is None or channels != 1 or count != groups or len(sizes) not in _POOLS:
        return None
    if any(apart != 1 for apart in _each(dilations, len(sizes))):
        return None
    dims = list(edit.spec(x).dims)
    total = x
    for axis in reversed(range(len(sizes))):
        steps = sizes[axis], _each(strides, len(sizes))[axis], _each(paddings, len(sizes))[axis]
        dims[_LEADING + axis] = node.outs[0].dims[_LEADING + axis]
        along = _along(edit, total, axis, steps, dims)
        if along is None:
            return None
        total = along
    return node.model_copy(update={"op": "aten.mul.Tensor", "args": (total, number), "kwargs": ()})


def _along(
    edit: GraphEdit, total: Ref, axis: int, steps: tuple[Dim, Arg, Arg], dims: Sequence[Dim]
) -> Ref | None:
    """Sums of windows of one axis: their size, how far they are apart and the zeros beside the axis."""
    size, stride, padding = steps
    if not (isinstance(size, int) and isinstance(stride, int) and isinstance(padding, int)):
        return None
    if (size, stride, padding) == (1, 1, 0):
        return total
    if padding > size // 2:  # which no pool takes
        return None
    ndim = len(dims) - _LEADING

    def only_here(value: int, other: int) -> tuple[Arg, ...]:
        return tuple(value if place == axis else other for place in range(ndim))

    args = (total, only_here(size, 1), only_here(stride, 1), only_here(padding, 0), False, True, 1)
    return edit.add(_POOLS[ndim], args, OutputSpec(dtype="f32", dims=tuple(dims)), "along")


def _each(given: Arg, count: int) -> tuple[Arg, ...]:
    """One value an axis, where one may stand for all of them."""
    values = given if isinstance(given, tuple) else (given,)
    return values * count if len(values) == 1 else values


def _everywhere(edit: GraphEdit, weight: Arg) -> float | None:
    """The number that all elements of a computed tensor are."""
    number = edit.constant(weight)
    made = edit.made(weight)
    if number is not None or made is None:
        return number
    if made.base_name in _MOVED:
        return _everywhere(edit, made.args[0])
    if made.op not in ("aten.mul.Tensor", "aten.div.Tensor"):
        return None
    first, second = (_everywhere(edit, arg) for arg in made.args[:2])
    if first is None or second is None or (made.op == "aten.div.Tensor" and not second):
        return None
    return first * second if made.op == "aten.mul.Tensor" else first / second
