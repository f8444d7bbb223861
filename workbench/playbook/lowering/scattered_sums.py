"""Values that are added at places which data names, or put there: ``index_add``, ``scatter`` and others.

Owns how such an operation becomes two kernels: one that writes what there is to begin with, and one that adds
or puts values, by atomics, to wherever a gather would read. Returns False for what it does not cover: means,
truth values, different values that are put at one place. Few places along an axis are replaced.py's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.model import DType, OpNode, Ref
from workbench.playbook.analysis.placement import identity
from workbench.playbook.graph.rewrites import SCATTERED_SUMS
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, Reduction, leaves
from workbench.playbook.ir.operations import constant
from workbench.playbook.ir.program import Scatter
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.views import NotAView, View, runs
from workbench.playbook.lowering.movement import INDICES, from_the_end, indexed, keep_axes, looked_up
from workbench.problem.meeting_sizes import met_by

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value

_ADDED_AS: Mapping[DType, DType] = {
    "f64": "f64", "f32": "f32", "f16": "f32", "bf16": "f32",
    "i64": "i64", "i32": "i32", "i16": "i32", "i8": "i32", "u8": "i32",
}  # fmt: skip
"""Type that values are joined in: 16-bit sums would be rounded after every addition, and there are no atomics
of whole numbers that are narrower than 32 bits."""
_PUT_AS: Mapping[DType, DType] = {dtype: dtype for dtype in ("f64", "f32", "i64", "i32")}
"""The same of what is put in place of others: atomics exchange words of 32 and 64 bits."""


@dataclass(frozen=True)
class _Asked:
    """An operation of this kind."""

    into: Value
    value: Value
    shape: tuple[Size, ...]
    """Of the indices, and of what they say nothing of: an element of it is a value that joins."""
    place: Callable[[Value], Expr | None]
    """What a gather by the same indices would read of a tensor like ``into``."""
    op: str = "sum"

    @property
    def joined_as(self) -> DType | None:
        """Type that values are joined in; None where there is none for it."""
        return (_PUT_AS if self.op == "put" else _ADDED_AS).get(self.into.dtype)


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none, or is to be left to the library."""
    rule = _RULES.get(node.op)
    asked = rule(lowering, node) if rule else None
    if asked is None or asked.joined_as is None:
        return False
    lowering.applied.add(SCATTERED_SUMS)
    if SCATTERED_SUMS in lowering.without:
        return False
    return _joined(lowering, node, asked, asked.joined_as)


def _joined(lowering: Lowering, node: OpNode, asked: _Asked, dtype: DType) -> bool:
    into = asked.into
    if product(asked.shape).is_zero:
        lowering.keep_view(node, into)
        return True
    begun = _goes_on(lowering, node, asked)
    buffer = begun or lowering.new_buffer(node.name, dtype, into.shape)
    place = asked.place(lowering.loaded(buffer))
    if not isinstance(place, Load):
        if not begun:
            del lowering.buffers[buffer]
        return False
    value = lowering.broadcast(_apart(lowering, asked.value), asked.shape)
    if not begun:
        begin = type(into)(into.shape, dtype, _begun(lowering, lowering.cast(into.expr, dtype), asked.op))
        lowering.store(buffer, begin, identity(product(into.shape)))
    joining, count, places = lowering.cast(value.expr, dtype), product(asked.shape), product(into.shape)
    lowering.scatter(Scatter(asked.op, joining, place, count, places))
    lowering.keep_view(node, lowering.converted(lowering.loaded(buffer), into.shape, into.dtype))
    return True


def _goes_on(lowering: Lowering, node: OpNode, asked: _Asked) -> str:
    """The buffer of another such operation whose results nobody else sees: these join them. Else empty."""
    (into, *_) = node.args
    match asked.into.expr:
        case (Load() as held) | Apply(op="cast", args=(Load() as held,)) if not held.lookups:
            calls = [one.call for one in lowering.operations if isinstance(one.call, Scatter)]
            alike = any((call.buffer, call.op) == (held.buffer, asked.op) for call in calls)
            before = lowering.nodes.get(into.ref) if isinstance(into, Ref) else None
            made = before is not None and before.op in _RULES and lowering.only_user(before.name) is node
            return held.buffer if alike and made else ""
    return ""


def _begun(lowering: Lowering, expr: Expr, op: str) -> Expr:
    """What there is to begin with; a NaN with the bits that no other number replaces."""
    if op not in ("max", "min") or expr.dtype not in ("f32", "f64") or isinstance(expr, Const):
        return expr
    pool = lowering.pool
    nan = pool.const(math.nan, expr.dtype)
    nan = pool.apply("neg", expr.dtype, (nan,)) if op == "min" else nan
    return pool.apply("where", expr.dtype, (pool.apply("isnan", "bool", (expr,)), nan, expr))


def _apart(lowering: Lowering, value: Value) -> Value:
    """The tensor element by element: what rows come to is read from memory."""
    if not any(isinstance(leaf, Reduction) for leaf in leaves(value.expr)):
        return value
    return lowering.loaded(lowering.write(value, "joining"))


# ------------------------------------------------------------------------------------ what is asked


def _index_put(lowering: Lowering, node: OpNode) -> _Asked | None:
    """``index_put`` that adds, which ``index_add`` and the gradient of an embedding are too.

    Indices stand along neighbouring axes and may count from the end.
    """
    into, given = lowering.value(node.args[0]), node.args[1]
    adds = len(node.args) > 3 and bool(node.args[3])
    if not adds or not isinstance(given, tuple):
        return None
    axes = [axis for axis, ref in enumerate(given) if ref is not None]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return None
    found = {axis: lowering.value(given[axis]) for axis in axes}
    if any(index.dtype not in INDICES for index in found.values()):
        return None
    common = met_by([index.shape for index in found.values()], ONE)
    shape = (*into.shape[: axes[0]], *common, *into.shape[axes[-1] + 1 :])

    def place(source: Value) -> Expr | None:
        wrapped = []
        for axis, index in found.items():
            whole = lowering.broadcast(_apart(lowering, index), common)
            wrapped.append((axis, from_the_end(lowering, whole, into.shape[axis])))
        return indexed(lowering, source, wrapped, shape)

    return _Asked(into, lowering.value(node.args[2]), shape, place)


def _scatter(lowering: Lowering, node: OpNode) -> _Asked | None:
    """``scatter``, ``scatter_add``, ``scatter_reduce`` that counts what was there: an index for each value.

    Values that are put at one place have to be the same: of others torch leaves any one on a GPU and the last
    on a CPU, and whoever counts on that counts on the library.
    """
    into, index = lowering.value(node.args[0]), lowering.value(node.args[2])
    axis, op = node.args[1], _OPS.get(node.op, "")
    if node.op == "aten.scatter_reduce.two":
        op = _REDUCED.get(str(node.args[4]), "")
    if isinstance(node.args[3], Ref):
        value = lowering.value(node.args[3])
    else:
        number = constant(lowering.pool, node.args[3], into.expr.dtype)
        value = type(into)(index.shape, into.dtype, number)
    counts = dict(node.kwargs).get("include_self") is not False
    if not isinstance(axis, int) or not into.shape or not op or not counts or index.dtype not in INDICES:
        return None
    axis %= len(into.shape)
    if product(index.shape).is_zero:
        return _Asked(into, value, index.shape, lambda source: None, op)
    cut = keep_axes(value.shape, index.shape, len(index.shape))
    if op == "put" and not _is_one_a_place(lowering, value, cut, index, axis):
        return None

    def place(source: Value) -> Expr | None:
        found = _apart(lowering, index)
        return looked_up(lowering, source, found.expr, axis, keep_axes(into.shape, index.shape, axis))

    reached = lowering.through(_apart(lowering, value), cut, index.shape)
    return _Asked(into, reached, index.shape, place, op)


def _is_one_a_place(
    lowering: Lowering, value: Value, cut: Callable[[View], View], index: Value, axis: int
) -> bool:
    """True for values that depend on where they are along ``axis`` by their index alone."""
    seen = {index.expr.serial}
    try:
        stack = [lowering.pool.through(value.expr, cut)]
        while stack:
            expr = stack.pop()
            if expr.serial in seen:
                continue
            seen.add(expr.serial)
            stack.extend(expr.operands)
            match expr:
                case Load(view=view) | Index(view=view) | Reduction(view=view):
                    if not all(step.stride.is_zero for step in runs(view, index.shape)[axis]):
                        return False
    except NotAView:
        return False
    return True


def _put(lowering: Lowering, node: OpNode) -> _Asked | None:
    """``put`` that adds: an index counts along all elements, one row after the other."""
    into, index, value = (lowering.value(arg) for arg in node.args[:3])
    adds = len(node.args) > 3 and node.args[3] is True
    open_sizes = all(
        one == other or (one.number is None and other.number is None)
        for one, other in zip(value.shape, index.shape, strict=False)
    )
    alike = len(value.shape) == len(index.shape) and open_sizes  # which the plan asks to be equal
    if not adds or index.dtype not in INDICES or not alike:
        return None

    def place(source: Value) -> Expr | None:
        line = lowering.through(source, lambda view: view, (product(into.shape),))
        found = from_the_end(lowering, _apart(lowering, index), product(into.shape))
        return indexed(lowering, line, [(0, found)], index.shape)

    return _Asked(into, value, index.shape, place)


_REDUCED = {"sum": "sum", "amax": "max", "amin": "min"}
_OPS = {"aten.scatter_add.default": "sum", "aten.scatter.src": "put", "aten.scatter.value": "put"}

Rule = Callable[["Lowering", OpNode], _Asked | None]

_RULES: Mapping[str, Rule] = {
    "aten.index_put.default": _index_put,
    "aten.put.default": _put,
    "aten.scatter.src": _scatter,
    "aten.scatter.value": _scatter,
    "aten.scatter_add.default": _scatter,
    "aten.scatter_reduce.two": _scatter,
}
