"""Attention written as two products and a softmax, done by the library's attention in one call.

Owns the rule; rewrites.py owns its name. The scores, a number for each pair of a query and a key, then never
reach memory. Exported graphs have torch's own ``scaled_dot_product_attention`` in parts too: they come back
together here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.model import Arg, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.causal_masks import keeps_past
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of

_CONVERT = "prims.convert_element_type.default"
_HALVES = ("f16", "bf16")
_WIDEST_HEAD, _HEAD_STEP = 256, 8
"""What flash attention takes: heads of at most so many channels, in steps."""
_MOVES = frozenset(["aten.view.default", "aten.permute.default", "aten.expand.default"])


@dataclass(frozen=True)
class _Scores:
    """``scale * q @ k^T``, masked; ``q`` (N, L, E) and ``k^T`` (N, E, S) as the product takes them."""

    product: OpNode
    scale: float
    causal: bool = False
    mask: Ref | None = None
    added: bool = False
    """The causal mask is added: what it hides is NaN where the score is."""


@dataclass(frozen=True)
class _Softmax:
    """Over the last axis of some scores."""

    scores: Ref
    zeros: bool
    """Rows of nothing but -inf are 0, and not NaN."""
    readers: frozenset[str]
    """The nodes of it that read the scores."""


def attention(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``softmax(q @ k^T * scale) @ v`` as one call; with a causal mask too, and any mask that torch added.

    A row whose mask leaves nothing is NaN where it is written out, and 0 in the library's attention; and -inf
    that is added to NaN leaves NaN, which the call does not see. So masks that are added stay where they are,
    unless the graph has torch's own attention in parts, which says that such rows are 0.
    """
    product, out = _second_product(edit, node)
    if product is None:
        return None
    weights, value = product.args
    assert isinstance(weights, Ref) and isinstance(value, Ref)
    softmax = _softmax(edit, _stripped(edit, weights, rounded=True))
    scores = None if softmax is None else _scores(edit, softmax)
    if softmax is None or scores is None:
        return None
    if (scores.added or scores.mask is not None) and not softmax.zeros:
        return None
    return _called(edit, node, scores, value, out)


def _second_product(edit: GraphEdit, node: OpNode) -> tuple[OpNode | None, DType]:
    """The product with the values that ``node`` is, or that it rounds; and the type of what is attended to.

    A product of numbers that were 16 bits wide is rounded to them again behind: the call takes them as they
    were, and stands in the place of the rounding.
    """
    dtype = node.outs[0].dtype
    if node.op == "aten.bmm.default":
        narrow = any(_converted_from(edit, arg) in _HALVES for arg in node.args)
        return (None if narrow and dtype == "f32" else node), dtype
    if node.op != _CONVERT or dtype not in _HALVES:
        return None, dtype
    made = edit.made(_stripped(edit, node.args[0], rounded=False))
    wide = made is not None and made.op == "aten.bmm.default" and made.outs[0].dtype == "f32"
    if made is None or not wide or _converted_from(edit, made.args[1]) != dtype:
        return None, dtype
    return made, dtype


def _converted_from(edit: GraphEdit, arg: Arg) -> DType | None:
    """The type that an operand was widened from, behind its views and scales."""
    made = edit.made(arg)
    while made is not None and (made.op in _MOVES or _factor(made) is not None):
        made = edit.made(made.args[0])
    if made is None or made.op != _CONVERT or not isinstance(made.args[0], Ref):
        return None
    return edit.spec(made.args[0]).dtype


# ------------------------------------------------------------------------------------ the parts


def _softmax(edit: GraphEdit, ref: Arg) -> _Softmax | None:
    """A softmax over the last axis whose weights nobody else reads: they would have to be made twice."""
    made = edit.made(ref)
    if made is None or len(edit.users(made)) != 1:
        return None
    if made.op != "aten.where.self":
        return _plain_softmax(edit, made)
    condition, nothing, weights = made.args
    inner = edit.made(weights)
    found = None if inner is None else _plain_softmax(edit, inner)
    looks = _looks_for_empty_rows(edit, condition)
    if found is None or looks is None or looks.args[0] != found.scores or edit.constant(nothing) != 0.0:
        return None
    return _Softmax(found.scores, True, found.readers | {looks.name})


def _plain_softmax(edit: GraphEdit, made: OpNode) -> _Softmax | None:
    match made:
        case OpNode(op="aten.div.Tensor", args=(Ref() as raised, Ref() as total)):
            pass
        case _:
            return None
    match edit.made(total), edit.made(raised):
        case (
            OpNode(op="aten.sum.dim_IntList", args=(of, (-1,), True)),
            OpNode(op="aten.exp.default", args=(Ref() as distance,)),
        ) if of == raised:
            pass
        case _:
            return None
    match edit.made(distance):
        case OpNode(op="aten.sub.Tensor", args=(Ref() as scores, Ref() as top), kwargs=()):
            pass
        case _:
            return None
    match edit.made(top):
        case OpNode(op="aten.amax.default", args=(of, (-1,), True)) if of == scores:
            return _Softmax(scores, False, frozenset([distance.ref, top.ref]))
    return None


def _looks_for_empty_rows(edit: GraphEdit, condition: Arg) -> OpNode | None:
    """What finds -inf among scores, in ``not any(not scores == -inf)``."""
    for op in ("aten.logical_not.default", "aten.any.dim", "aten.logical_not.default"):
        made = edit.made(condition)
        if made is None or made.op != op:
            return None
        condition = made.args[0]
    match edit.made(condition):
        case OpNode(op="aten.eq.Scalar", args=(_, number)) as looks if number == -math.inf:
            return looks
    return None


def _scores(edit: GraphEdit, softmax: _Softmax) -> _Scores | None:
    """What the scores are made of, outermost first: a mask, a scale, the product."""
    scale, causal, added = 1.0, False, False
    mask: Ref | None = None
    last = edit.spec(softmax.scores).dims[-2:]
    way: list[OpNode] = []
    at: Arg = softmax.scores
    while (made := edit.made(at)) is not None:
        way.append(made)
        if made.op == "aten.bmm.default":
            kept = made.outs[0].dims[-2:] == last and _read_only_here(edit, way, softmax.readers)
            return _Scores(made, scale, causal, mask, added) if kept else None
        if (factor := _factor(made)) is not None:
            scale *= factor
            at = made.args[0]
        elif made.op == _CONVERT or _keeps_order(edit, made):
            at = made.args[0]
        elif scale == 1.0 and not causal and mask is None and made.outs[0].dims[-2:] == last:
            if (found := _masked(edit, made)) is None:
                return None
            at, causal, mask = found
            added = made.op == "aten.add.Tensor"
        else:
            return None
    return None


def _masked(edit: GraphEdit, made: OpNode) -> tuple[Arg, bool, Ref | None] | None:
    """What a mask is laid over, whether it hides the future and nothing else, or else the mask itself."""
    match made:
        case OpNode(op="aten.add.Tensor", args=(Ref() as scores, Ref() as mask), kwargs=()):
            if _hides_future(edit, mask):
                return scores, True, None
            fits = len(edit.spec(mask).dims) == 2 or len(made.outs[0].dims) == 4
            return (scores, False, mask) if fits and edit.spec(scores).dims == made.outs[0].dims else None
        case OpNode(op="aten.where.self", args=(condition, one, other)):
            for seen, hidden, keeps in ((one, other, True), (other, one, False)):
                if edit.constant(hidden) == -math.inf and keeps_past(edit, condition, keeps):
                    return seen, True, None
    return None


def _hides_future(edit: GraphEdit, mask: Ref) -> bool:
    """True for a mask that is 0 up to a query's own place, and -inf beyond."""
    match edit.made(mask):
        case OpNode(op="aten.where.self", args=(condition, one, other)):
            numbers = edit.constant(one), edit.constant(other)
            for order, keeps in (((0.0, -math.inf), True), ((-math.inf, 0.0), False)):
                if numbers == order:
                    return keeps_past(edit, condition, keeps)
    return False


def _read_only_here(edit: GraphEdit, way: Sequence[OpNode], readers: frozenset[str]) -> bool:
    """True where nobody but the softmax reads the scores, on their way from the product to it."""
    own = {made.name for made in way} | readers
    return all(user is not None and user.name in own for made in way for user in edit.users(made))


def _factor(made: OpNode) -> float | None:
    """The number that an operation multiplies with."""
    if made.kwargs or len(made.args) != 2 or isinstance(made.args[1], bool):
        return None
    match made:
        case OpNode(op="aten.mul.Tensor" | "aten.mul.Scalar", args=(Ref(), int() | float() as factor)):
            return float(factor)
        case OpNode(op="aten.div.Tensor" | "aten.div.Scalar", args=(Ref(), int() | float() as divisor)):
            return 1.0 / divisor if divisor else None
    return None


def _keeps_order(edit: GraphEdit, made: OpNode) -> bool:
    """True for another shape of the same elements in the same order."""
    if made.op == "aten.view.default":
        return True
    if made.op != "aten.permute.default" or not isinstance(made.args[0], Ref):
        return False
    dims, order = edit.spec(made.args[0]).dims, made.args[1]
    assert isinstance(order, tuple)
    moved = [place for place in order if isinstance(place, int) and dims[place] != 1]
    return moved == sorted(moved)


def _stripped(edit: GraphEdit, arg: Arg, rounded: bool) -> Arg:
    """What lies behind other shapes of the same elements (and their rounding) that have one reader."""
    while (made := edit.made(arg)) is not None and len(edit.users(made)) == 1:
        if not (_keeps_order(edit, made) or (rounded and made.op == _CONVERT)):
            break
        arg = made.args[0]
    return arg


# ------------------------------------------------------------------------------------ heads that share keys


def shared_heads(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """Attention whose keys and values each stand for several heads, as they are instead of repeated.

    Grouped-query attention (Ainslie et al., "GQA", 2023). The library's kernels for 16 bits take the few;
    where they are repeated first, keys and values are written, and read, that many times.
    """
    match node:
        case OpNode(op="aten.scaled_dot_product_attention.default", args=(query, key, value, None, *rest)):
            pass
        case _:
            return None
    parts = [_unrepeated(edit, arg) for arg in (key, value)]
    bare = [part for part in parts if part is not None]
    each = node.outs[0].dims[-1]
    if len(bare) != 2 or node.outs[0].dtype not in _HALVES or not isinstance(each, int):
        return None
    widths = {edit.spec(ref).dims[-1] for ref in bare}
    if edit.spec(bare[0]).dims[1] != edit.spec(bare[1]).dims[1] or widths != {each}:
        return None
    if each > _WIDEST_HEAD or each % _HEAD_STEP:
        return None
    kwargs = (*node.kwargs, ("enable_gqa", True))
    return node.model_copy(update={"args": (query, *bare, None, *rest), "kwargs": kwargs})


def _unrepeated(edit: GraphEdit, arg: Arg) -> Ref | None:
    """(B, K, S, E) of the (B, K G, S, E) that repeats each of K heads G times, one after the other."""
    joined = edit.made(arg)
    if joined is None or joined.op != "aten.view.default" or len(joined.outs[0].dims) != 4:
        return None
    repeated = edit.made(joined.args[0])
    if repeated is None or repeated.op != "aten.expand.default":
        return None
    source = repeated.args[0]
    assert isinstance(source, Ref)
    dims, many = edit.spec(source).dims, repeated.outs[0].dims
    if len(dims) != 5 or dims[2] != 1 or dims[:2] != many[:2] or dims[3:] != many[3:]:
        return None
    outer, heads, *inner = joined.outs[0].dims
    if (outer, *inner) != (many[0], *many[3:]) or many[2] == 1:
        return None
    if edit.sizes.read(many[1]) * edit.sizes.read(many[2]) != edit.sizes.read(heads):
        return None
    return edit.view(source, (*dims[:2], *dims[3:]))


# ------------------------------------------------------------------------------------ the call


def _called(edit: GraphEdit, node: OpNode, scores: _Scores, value: Ref, dtype: DType) -> OpNode | None:
    """The one call, and ``node`` as a view of its result."""
    left, right = scores.product.args
    assert isinstance(left, Ref) and isinstance(right, Ref)
    query, one = _bare(edit, left, dtype, scaled=True)
    key, other = _bare(edit, right, dtype, scaled=True)
    value, _ = _bare(edit, value, dtype, scaled=False)
    given = [ref for ref in (query, key, value, scores.mask) if ref is not None]
    operands = _operands(edit, (query, _swapped(edit, key), value), scores.mask)
    if operands is None or any(edit.spec(ref).dtype != dtype for ref in given):
        return None
    dims = (*edit.spec(operands[0]).dims[:3], edit.spec(operands[2]).dims[3])
    made = edit.add(
        "aten.scaled_dot_product_attention.default",
        (*operands, scores.mask, 0.0, scores.causal),
        OutputSpec(dtype=dtype, dims=dims, order=None if dims[1] == 1 else (0, 2, 1, 3)),
        "attended",
        (("scale", float(f"{scores.scale * one * other:.12g}")),),  # 0.3, of two square roots
    )
    args: tuple[Arg, ...] = (made, shape_of(node.outs[0].dims))
    return node.model_copy(update={"op": "aten.view.default", "args": args, "kwargs": ()})


def _operands(edit: GraphEdit, refs: Sequence[Ref], mask: Ref | None) -> tuple[Ref, ...] | None:
    """Query, key and value (B, H, L, E) as the library's attention takes them.

    Heads that lie one after the other are a longer batch of one head each: whatever kernel the library picks,
    its result then lies in order. Those that lie between one another, or have masks of their own, stay heads.
    """
    heads = [_with_heads(edit, ref) for ref in refs]
    found = tuple(ref for ref in heads if ref is not None)
    same = len(found) == len(refs) and len({edit.spec(ref).dims[:2] for ref in found}) == 1
    if same and (mask is not None or any(_is_moved(edit, ref) for ref in found)):
        return found
    if mask is not None and len(edit.spec(mask).dims) > 2:
        return None
    return tuple(edit.view(ref, (dims[0], 1, *dims[1:])) for ref in refs for dims in (edit.spec(ref).dims,))


def _with_heads(edit: GraphEdit, ref: Ref) -> Ref | None:
    """The four dimensions whose first two a product's operand has in one."""
    made = edit.made(ref)
    if made is None or not isinstance(made.args[0], Ref):
        return None
    if made.op == "aten.permute.default":
        return _heads_of_columns(edit, made)
    whole = edit.spec(made.args[0]).dims
    is_view = made.op == "aten.view.default"
    return made.args[0] if is_view and len(whole) == 4 and whole[2:] == edit.spec(ref).dims[1:] else None


def _heads_of_columns(edit: GraphEdit, turned: OpNode) -> Ref | None:
    """(B, H, L, E) of (L, B, H E), whose columns ``nn.MultiheadAttention`` splits along with the batch.

    (L, B H, E), and that turned, is no view in which batch and heads are one axis: it would be copied.
    """
    seen = edit.made(turned.args[0])
    if turned.args[1] != (1, 0, 2) or seen is None or seen.op != "aten.view.default":
        return None
    source = seen.args[0]
    assert isinstance(source, Ref)
    whole, (length, both, each) = edit.spec(source).dims, seen.outs[0].dims
    if len(whole) != 3 or whole[0] != length or not isinstance(each, int) or not isinstance(whole[2], int):
        return None
    heads, rest = divmod(whole[2], each)
    if rest or edit.sizes.read(whole[1]) * edit.sizes.read(heads) != edit.sizes.read(both):
        return None
    apart = edit.view(source, (length, whole[1], heads, each))
    out = OutputSpec(dtype=edit.spec(source).dtype, dims=(whole[1], heads, length, each))
    return edit.add("aten.permute.default", (apart, (1, 2, 0, 3)), out)


def _is_moved(edit: GraphEdit, ref: Ref) -> bool:
    made = edit.made(ref)
    return made is not None and made.op in _MOVES


def _swapped(edit: GraphEdit, ref: Ref) -> Ref:
    """Keys (N, S, E) from the (N, E, S) that a product takes."""
    first, rows, columns = edit.spec(ref).dims
    whole = _with_heads(edit, ref)
    return _turned(edit, ref) if whole is None else edit.view(_turned(edit, whole), (first, columns, rows))


def _turned(edit: GraphEdit, ref: Ref) -> Ref:
    """With its last two axes in turn: without the permutation that did that, or with one in its place."""
    made = edit.made(ref)
    dims = edit.spec(ref).dims
    order: tuple[Arg, ...] = tuple(range(len(dims)))
    if made is not None and made.op == "aten.permute.default":
        inner, given = made.args
        assert isinstance(inner, Ref) and isinstance(given, tuple)
        ref, order = inner, given
    order = (*order[:-2], order[-1], order[-2])
    if order == tuple(range(len(dims))):
        return ref
    out = OutputSpec(dtype=edit.spec(ref).dtype, dims=(*dims[:-2], dims[-1], dims[-2]))
    return edit.add("aten.permute.default", (ref, order), out)


def _bare(edit: GraphEdit, ref: Ref, dtype: DType, scaled: bool) -> tuple[Ref, float]:
    """An operand without the scales and the widening behind its views, and what it was scaled with."""
    scale, at, moves = 1.0, ref, list[OpNode]()
    bare, above = ref, 0
    while (made := edit.made(at)) is not None and isinstance(made.args[0], Ref):
        factor = _factor(made) if scaled else None
        widened = made.op == _CONVERT and edit.spec(made.args[0]).dtype == dtype != made.outs[0].dtype
        if made.op in _MOVES:
            moves.append(made)
        elif factor is None and not widened:
            break
        at = made.args[0]
        if made.op not in _MOVES:
            scale *= 1.0 if factor is None else factor
            bare, above = at, len(moves)
    for move in reversed(moves[:above]):
        out = OutputSpec(dtype=edit.spec(bare).dtype, dims=move.outs[0].dims)
        bare = edit.add(move.op, (bare, *move.args[1:]), out, f"{move.name}_bare")
    return bare, scale
