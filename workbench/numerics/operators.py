"""Torch's operators by the names that a graph has for them, and their arguments.

Owns how a node's arguments become what its operator takes, when a result is last read, and which operations
torch leaves open. Never interprets a graph: running.py does, and a plan's library calls are made with the
same operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from workbench.model import Arg, Graph, Ref, Sym, base_name, size_of
from workbench.numerics.dtypes import TORCH, is_float
from workbench.numerics.movement import MOVES
from workbench.plan.spectra import in_pairs

DTYPES: Mapping[str, torch.dtype] = {str(name): dtype for name, dtype in TORCH.items()}


def last_read(graph: Graph) -> dict[str, tuple[str, ...]]:
    """By node: results and inputs that neither a later node nor an output reads."""
    last: dict[str, str] = {}
    for node in graph.nodes:
        last[node.name] = node.name
        last.update((ref.ref, node.name) for ref in node.refs)
    kept = {ref.ref for ref in graph.outputs}
    found: dict[str, list[str]] = {}
    for name, reader in last.items():
        if name not in kept:
            found.setdefault(reader, []).append(name)
    return {reader: tuple(names) for reader, names in found.items()}


_PUT = frozenset(["index_put", "_unsafe_index_put", "scatter"])
_FINDS = frozenset(["searchsorted", "bucketize"])


def leaves_open(graph: Graph) -> bool:
    """True where values are put, not added, at places that data names: of several for one place any may stay,
    and torch itself keeps another one in another run. And where a place is found among what is computed: a
    total that is made in another order has other values on each side."""
    computed = set[str]()
    for node in graph.nodes:
        of_computed = any(ref.ref in computed for ref in node.refs)
        if node.base_name in _FINDS and of_computed:
            return True
        if of_computed or (is_float(node.outs[0].dtype) and node.base_name not in MOVES):
            computed.add(node.name)
    put = [node for node in graph.nodes if node.base_name in _PUT]
    return any(node.base_name == "scatter" or len(node.args) < 4 or not node.args[3] for node in put)


def argument(arg: Arg, of: Callable[[Ref], Any], sizes: Mapping[str, int]) -> Any:
    """An argument of a node as its operator takes it, with what ``of`` knows of results."""
    match arg:
        case Ref():
            return of(arg)
        case Sym(sym=text):
            return size_of(text, sizes)
        case tuple():
            return [argument(a, of, sizes) for a in arg]
        case str() if arg in DTYPES:
            return DTYPES[arg]
        case _:
            return arg


def free_of_layout(name: str) -> str:
    """A view is a reshape here: float64 arithmetic lays values out otherwise than the reference did."""
    return "aten.reshape.default" if name in ("aten.view.default", "aten._unsafe_view.default") else name


def operator(name: str) -> Callable[..., Any]:
    """Find ``aten.sum.dim_IntList`` among torch's operators. Raises ``AttributeError``."""
    namespace, base, *overload = name.split(".")
    packet = getattr(getattr(torch.ops, namespace), base)
    found: Callable[..., Any] = getattr(packet, overload[0] if overload else "default")
    return in_pairs(base, found)


_LIE_DIFFERENTLY = frozenset(["scaled_dot_product_attention"])
"""Kernels of one operation that leave its result a head after the other, or all heads of a place together."""


def library_operator(name: str) -> Callable[..., Any]:
    """The same as a step of a plan, whose results lie in one way wherever it runs.

    Those of attention, (B, H, L, E), as the fastest kernels leave them: all heads of a place together, so
    that (B, L, H E) is a view of them.
    """
    found = operator(name)
    if base_name(name) not in _LIE_DIFFERENTLY:
        return found
    return lambda *args, **options: _heads_together(found(*args, **options))


def _heads_together(attended: Tensor) -> Tensor:
    if attended.dim() != 4:
        return attended.contiguous()
    return attended.transpose(1, 2).contiguous().transpose(1, 2)
