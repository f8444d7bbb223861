"""A graph gone through with torch's own operations, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.model import Arg, Graph, OpNode, Ref, Sym, size_of

_TYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bool": torch.bool,
    "i64": torch.int64,
    "i32": torch.int32,
}


def results_of(graph: Graph, given: Mapping[str, Tensor], sizes: Mapping[str, int]) -> list[Tensor]:
    """What a graph makes of tensors."""
    made: dict[str, Any] = dict(given)

    def value(arg: Arg) -> Any:
        if isinstance(arg, Ref):
            found = made[arg.ref]
            return found[arg.item or 0] if isinstance(found, (tuple, list)) else found
        if isinstance(arg, Sym):
            return size_of(arg.sym, sizes)
        if isinstance(arg, tuple):
            return [value(one) for one in arg]
        return _TYPES.get(arg, arg) if isinstance(arg, str) else arg

    for node in graph.nodes:
        args, named = [value(arg) for arg in node.args], {name: value(arg) for name, arg in node.kwargs}
        made[node.name] = _called(node, args, named)
    return [value(ref) for ref in graph.outputs]


def _called(node: OpNode, args: list[Any], named: dict[str, Any]) -> Any:
    if node.base_name == "view":
        return args[0].reshape(args[1])
    namespace, name, overload = node.op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), name), overload)(*args, **named)
