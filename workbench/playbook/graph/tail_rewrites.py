"""Rewrites that move work of a library call into the kernel behind it, where it costs nothing.

Owns the rules about what follows a matrix product or a convolution; rewrites.py owns their names and order.
"""

from __future__ import annotations

from workbench.model import OpNode, Ref
from workbench.playbook.graph.graph_edit import GraphEdit
from workbench.playbook.ir.operations import is_pointwise

PASSED_ON = frozenset(["view", "permute", "expand", "slice", "select", "unsqueeze", "squeeze"])
"""Operations whose results are their operand's elements as they lie."""
_OWN_KERNELS = frozenset(
    [
        "max_pool2d_with_indices",
        "max_pool3d_with_indices",
        "avg_pool2d",
        "avg_pool3d",
        "sum",
        "prod",
        "amax",
        "amin",
        "max",
        "min",
        "argmax",
        "argmin",
    ]
)


def has_tail(edit: GraphEdit, node: OpNode) -> bool:
    """True when every reader of a node is a kernel of our own, which reads it element by element."""
    users = edit.users(node)
    return bool(users) and all(user is not None and _is_tail(edit, user) for user in users)


def _is_tail(edit: GraphEdit, user: OpNode) -> bool:
    name = user.base_name
    if name in PASSED_ON:
        return has_tail(edit, user)
    return is_pointwise(user) or name in _OWN_KERNELS


def bias_in_tail(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``convolution(x, w, bias)`` as ``convolution(x, w) + bias`` where a kernel follows anyway.

    The library adds the bias in a pass of its own over the whole result (PyTorch's
    ``aten/src/ATen/native/Convolution.cpp``, cuDNN backends: ``output.add_(reshape_bias(...))``).
    """
    match node:
        case OpNode(op="aten.convolution.default", args=(x, weight, Ref() as bias, *rest), outs=(out,)):
            pass
        case _:
            return None
    if not has_tail(edit, node) or edit.spec(bias).dtype != out.dtype:
        return None
    product = edit.add(node.op, (x, weight, None, *rest), out, f"{node.name}_product")
    column = edit.view(bias, (out.dims[1], *(1 for _ in out.dims[2:])))
    return node.model_copy(update={"op": "aten.add.Tensor", "args": (product, column), "kwargs": ()})
