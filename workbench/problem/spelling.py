"""One spelling of an operation where torch has several.

Owns which names, casts and views of core ATen and prims are the same. Never looks at a graph or at values.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import Arg, Dim, OpNode, Ref, Sym, base_name

CASTS = frozenset(["aten._to_copy.default", "prims.convert_element_type.default"])


def canonical(
    op: str,
    args: tuple[Arg, ...],
    kwargs: tuple[tuple[str, Arg], ...],
    metas: tuple[tuple[str, tuple[Dim, ...]], ...],
    explicit_cast: bool,
) -> tuple[str, tuple[Arg, ...], tuple[tuple[str, Arg], ...]]:
    """One spelling where torch has several.

    A cast the person wrote stays ``aten._to_copy`` and rounds; one that a decomposition put in is
    ``prims.convert_element_type`` and may be left out where values stay in registers.
    """
    shape = tuple(d if isinstance(d, int) else Sym(sym=d) for d in metas[0][1])
    if op in CASTS:
        dtype = metas[0][0]
        if not isinstance(args[0], Ref):  # a number that vmap made a tensor of
            return "aten.full.default", ((), args[0]), (("dtype", dtype),)
        if explicit_cast:
            return "aten._to_copy.default", args[:1], (("dtype", dtype),)
        return "prims.convert_element_type.default", (args[0], dtype), ()
    if op in ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"):
        return "aten.view.default", (args[0], shape), ()
    if op in ("aten.squeeze.dims", "aten.squeeze.dim", "aten.squeeze.default", "aten.unsqueeze.default"):
        return "aten.view.default", (args[0], shape), ()
    if op == "aten.expand.default":
        return op, (args[0], shape), ()
    if op.startswith("prims.") and base_name(op) in ("sum", "div", "sqrt", "mul", "add", "sub"):
        return _from_prims(op, args, kwargs)
    if "alpha" in dict(kwargs) and dict(kwargs)["alpha"] == 1:
        kwargs = tuple(pair for pair in kwargs if pair[0] != "alpha")
    return op, args, kwargs


def _from_prims(
    op: str, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...]
) -> tuple[str, tuple[Arg, ...], tuple[tuple[str, Arg], ...]]:
    name = base_name(op)
    if name == "sum":
        return "aten.sum.dim_IntList", args, ()
    if name == "sqrt":
        return "aten.sqrt.default", args, ()
    return f"aten.{name}.Tensor", args, kwargs


_SVD, _VALUES = "aten._linalg_svd.default", "aten.linalg_svdvals.default"


def without_vectors(
    nodes: Sequence[OpNode], outputs: tuple[Ref, ...]
) -> tuple[tuple[OpNode, ...], tuple[Ref, ...]]:
    """A decomposition of which the singular values alone are used is asked for no vectors.

    An export always asks for them, and of a matrix with an infinity the library then raises.
    """
    items = {(ref.ref, ref.item) for ref in (*outputs, *(r for n in nodes for r in n.refs))}
    alone = {
        n.name
        for n in nodes
        if n.op == _SVD and {i for name, i in items if name == n.name} == {1} and len(n.args) == 1
    }

    def plain(arg: Arg) -> Arg:
        if isinstance(arg, tuple):
            return tuple(map(plain, arg))
        return Ref(ref=arg.ref) if isinstance(arg, Ref) and arg.ref in alone else arg

    made = []
    for node in nodes:
        kwargs = tuple((name, plain(value)) for name, value in node.kwargs)
        read = node.model_copy(update={"args": tuple(map(plain, node.args)), "kwargs": kwargs})
        if node.name in alone:
            read = read.model_copy(update={"op": _VALUES, "outs": node.outs[1:2]})
        made.append(read)
    return tuple(made), tuple(Ref(ref=ref.ref) if ref.ref in alone else ref for ref in outputs)
