"""Rows of products as they lie: what is between a product and its neighbours copies nothing.

torch's attention layer has the axes of batch and sequence in another order than its inputs, multiplies a
batch of rows where one matrix of all rows would do, and adds biases to what it then takes apart. Owns the
rules that put the order of axes behind a product instead of before it, which changes neither sums nor
roundings.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.graph.tail_rewrites import PASSED_ON

_VIEW, _PERMUTE = "aten.view.default", "aten.permute.default"
_ATTENTION = "aten.scaled_dot_product_attention.default"
_CONVERT = "prims.convert_element_type.default"
_SWAPPED = (1, 0, 2)
_HEADS_BEHIND_PLACES = (2, 0, 1, 3)
"""(B, H, L, E) as (L, B, H, E): all but the first two axes as the library leaves a result of attention."""
_PARTS = frozenset(["split_with_sizes", "split", "unbind"])
"""Operations whose results are parts of their operand, as they lie."""
_PRODUCTS = frozenset(
    [
        "aten.mm.default",
        "aten.bmm.default",
        "aten.addmm.default",
        "aten._addmm_activation.default",
        "aten.convolution.default",
        "aten.scaled_dot_product_attention.default",
    ]
)


def one_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """Products of a batch with the same matrix as one of all its rows.

    torch makes a batch of what a linear layer gets from attention, whose heads it has in another order.
    """
    match node:
        case OpNode(op="aten.bmm.default", args=(Ref() as left, Ref() as right), outs=(out,)):
            pass
        case _:
            return None
    same, rows = edit.made(right), edit.made(left)
    if same is None or same.op != "aten.expand.default" or not isinstance(same.args[0], Ref):
        return None
    weight, (batch, length, terms) = same.args[0], edit.spec(left).dims
    if edit.spec(weight).dims != edit.spec(right).dims[1:] or 1 in out.dims:
        return None
    if rows is None or not (rows.op == _VIEW or _is_swap(rows)):
        return None  # others may lie so that all rows would be a copy
    turned = _is_swap(rows)
    if turned and None in edit.users(node):
        return None  # an output lies in the order that was asked for
    source = rows.args[0] if turned else left
    assert isinstance(source, Ref)
    made = _of_all_rows(edit, node, source, (length, batch) if turned else (batch, length), (terms, weight))
    if not turned:
        return _as(node, _VIEW, (made, shape_of(out.dims)))
    return _as(node, _PERMUTE, (edit.view(made, (length, batch, out.dims[2])), _SWAPPED))


def rows_as_they_lie(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A product of attention's result, of all places and heads, with the axes in the order they lie in.

    As many rows in another order: the result's are put in the order that was asked for, which whoever reads
    it mostly puts back.
    """
    match node:
        case OpNode(op="aten.mm.default", args=(Ref() as left, Ref() as right), outs=(out,)):
            rows = edit.made(left)
        case _:
            return None
    if rows is None or rows.op != _VIEW or not isinstance(rows.args[0], Ref):
        return None
    places = _heads_apart(edit, rows.args[0])
    split = edit.spec(places).dims
    if len(split) != 4 or not _is_of_attention(edit, places):
        return None
    length, batch = split[:2]
    if edit.sizes.read(length) * edit.sizes.read(batch) != edit.sizes.read(edit.spec(left).dims[0]):
        return None
    dims = (batch, length, *split[2:])
    swapped = edit.add(_PERMUTE, (places, (1, 0, 2, 3)), OutputSpec(dtype=out.dtype, dims=dims))
    made = _of_all_rows(edit, node, swapped, (batch, length), (edit.spec(left).dims[1], right))
    apart = edit.view(made, (batch, length, out.dims[1]))
    back = (length, batch, out.dims[1])
    turned = edit.add(_PERMUTE, (apart, _SWAPPED), OutputSpec(dtype=out.dtype, dims=back))
    return _as(node, _VIEW, (turned, shape_of(out.dims)))


def _heads_apart(edit: GraphEdit, ref: Ref) -> Ref:
    """(L, B, H, E) for the (L, B H, E) of an attention's (B, H, L, E); else what it is anyway."""
    turned = edit.made(ref)
    joined = edit.made(turned.args[0]) if turned is not None and _is_swap(turned) else None
    if joined is None or joined.op != _VIEW or not _keeps_axes(edit, joined):
        return ref
    source = joined.args[0]
    assert isinstance(source, Ref)
    dims = edit.spec(source).dims
    if len(dims) != 4:
        return ref
    apart = (dims[2], *dims[:2], dims[3])
    out = OutputSpec(dtype=edit.spec(ref).dtype, dims=apart)
    return edit.add(_PERMUTE, (source, _HEADS_BEHIND_PLACES), out)


def bias_on_rows(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A bias added to a product before its rows are taken apart, where nothing but library calls follows."""
    given = added(edit, node)
    if given is None or not only_for_calls(edit, node):
        return None
    (seen, bias), out = given, node.outs[0]
    views = _views_of_product(edit, seen)
    if not views or edit.spec(bias).dims != out.dims[-1:] or edit.spec(bias).dtype != out.dtype:
        return None
    product = views[-1].args[0]
    assert isinstance(product, Ref)
    spec = OutputSpec(dtype=out.dtype, dims=edit.spec(product).dims)
    ref = edit.add("aten.add.Tensor", (product, bias), spec, f"{node.name}_rows")
    for view in reversed(views[1:]):
        ref = edit.add(view.op, (ref, *view.args[1:]), view.outs[0])
    return _as(node, views[0].op, (ref, *views[0].args[1:]))


def bias_in_product(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``mm(a, b) + bias`` as one ``addmm``, where nothing but library calls and outputs follows.

    Anywhere else the addition is free: it is fused into the kernel that follows.
    """
    given = added(edit, node)
    if given is None or given[1].ref not in edit.given or not only_for_calls(edit, node):
        return None
    (seen, bias), dtype = given, node.outs[0].dtype
    product = edit.made(seen)
    if product is None or product.op != "aten.mm.default" or len(edit.users(product)) > 1:
        return None
    if 1 in product.outs[0].dims:  # a matrix with a vector is no library call: lowering/products.py
        return None
    if not edit.spec(bias).dtype == dtype == product.outs[0].dtype:
        return None
    return _as(node, "aten.addmm.default", (bias, *product.args))


def _of_all_rows(
    edit: GraphEdit, node: OpNode, source: Ref, outer: tuple[Dim, Dim], given: tuple[Dim, Ref]
) -> Ref:
    """The product of all rows of a tensor, whose first two axes are ``outer``, with a matrix."""
    terms, weight = given
    count = edit.sizes.read(outer[0]) * edit.sizes.read(outer[1])
    whole = count.number if count.number is not None else count.text
    out = node.outs[0]
    spec = OutputSpec(dtype=out.dtype, dims=(whole, out.dims[-1]))
    return edit.add("aten.mm.default", (edit.view(source, (whole, terms)), weight), spec, f"{node.name}_rows")


def _as(node: OpNode, op: str, args: tuple[Arg, ...]) -> OpNode:
    """The node as another operation with the same result."""
    return node.model_copy(update={"op": op, "args": args, "kwargs": ()})


def _is_swap(node: OpNode) -> bool:
    return node.op == _PERMUTE and node.args[1:] == (_SWAPPED,)


def _is_of_attention(edit: GraphEdit, ref: Ref) -> bool:
    """True for (L, B, H, E) of what a call of attention returns as (B, H, L, E)."""
    order = (0, 1, 2, 3)
    node = edit.made(ref)
    while node is not None and node.op != _ATTENTION:
        axes = node.args[1] if node.op == _PERMUTE else ()
        if isinstance(axes, tuple) and len(axes) == 4:
            order = tuple(int(axes[axis]) for axis in order)  # type: ignore[arg-type, assignment]
        elif node.op != _VIEW or not _keeps_axes(edit, node):
            return False
        source = node.args[0]
        node = edit.made(source) if isinstance(source, Ref) else None
    return node is not None and order == _HEADS_BEHIND_PLACES


def _keeps_axes(edit: GraphEdit, view: OpNode) -> bool:
    """True for a view that at most puts the first two axes of four together, or takes them apart again."""
    assert isinstance(view.args[0], Ref)
    apart, joined = edit.spec(view.args[0]).dims, view.outs[0].dims
    if len(apart) < len(joined):
        apart, joined = joined, apart
    if len(apart) != 4 or len(joined) not in (3, 4) or apart[2:] != joined[-2:]:
        return False
    sizes = [edit.sizes.read(dim) for dim in apart[:2]]
    return apart == joined or sizes[0] * sizes[1] == edit.sizes.read(joined[0])


def added(edit: GraphEdit, node: OpNode) -> tuple[Ref, Ref] | None:
    """The two tensors that a node adds; of 16-bit numbers also where it adds them in float32 and rounds."""
    if node.op == _CONVERT and isinstance(node.args[0], Ref):
        wide = edit.made(node.args[0])
        if wide is None or len(edit.users(wide)) > 1:
            return None
        parts = [edit.made(arg) for arg in wide.args]
        own = [one for one in parts if one is not None and one.op == _CONVERT and len(edit.users(one)) == 1]
        narrow = [one.args[0] for one in own]
        if wide.op != "aten.add.Tensor" or wide.kwargs or len(narrow) != 2:
            return None
        left, right = narrow
    elif node.op == "aten.add.Tensor" and not node.kwargs:
        left, right = node.args
    else:
        return None
    return (left, right) if isinstance(left, Ref) and isinstance(right, Ref) else None


def _views_of_product(edit: GraphEdit, ref: Ref) -> list[OpNode]:
    """Views, outermost first, that leave a product's columns together and are read by nobody else."""
    found: list[OpNode] = []
    node = edit.made(ref)
    while node is not None and node.op in (_VIEW, _PERMUTE):
        source = node.args[0]
        assert isinstance(source, Ref)
        kept = edit.spec(source).dims[-1:] == node.outs[0].dims[-1:]
        axes = node.args[1]
        if node.op == _PERMUTE and isinstance(axes, tuple):
            kept = axes[-1] == len(axes) - 1
        if not kept or len(edit.users(node)) != 1:
            return []
        found.append(node)
        node = edit.made(source)
    is_product = node is not None and node.op == "aten.mm.default" and len(edit.users(node)) == 1
    return found if is_product else []


def only_for_calls(edit: GraphEdit, node: OpNode) -> bool:
    """True where nothing but library calls and outputs follows, whatever part of it they read."""
    return all(user is None or _goes_to_a_call(edit, user) for user in edit.users(node))


def _goes_to_a_call(edit: GraphEdit, user: OpNode) -> bool:
    """True where a library call reads it, as it lies or a part of it; or it is an output in another shape."""
    if user.op == _VIEW and all(one is None for one in edit.users(user)):
        return True
    name = user.base_name
    if name not in PASSED_ON and name not in _PARTS:
        return user.op in _PRODUCTS
    after = edit.users(user)
    return bool(after) and all(one is not None and _goes_to_a_call(edit, one) for one in after)
