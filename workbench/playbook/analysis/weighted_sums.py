"""Sums weighted with exp(e - max(e)), and which of them go along with their maxima in one pass.

Owns how such sums are told; taken_out.py makes most of them. Never writes any text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.playbook.ir.expr import Apply, Const, Expr, Reduction, leaves


@dataclass(frozen=True)
class Joint:
    """Reductions that one accumulator makes of two operands, column by column."""

    kind: str
    """``divergence``, ``divergence_open``, ``weighted`` or ``distances``; ``co_moments``."""
    operand: Expr
    """e, whose distances from its maximum are the weights' logarithms."""
    other: Expr | None
    """What is weighted: f, as its distance from its own maximum, or any value a column as it is; of distances
    nothing."""
    keys: tuple[int, ...]
    """max(e), sum(weights); of a divergence then max(f), the sum of exp(f - max(f)), sum(weights *
    (f - max(f))) and, where it is wanted, sum(weights * (e - max(e))); of distances sum(e - max(e)); of
    co-moments sum(x), sum(y), sum(dx * dy) and, where they are wanted, sum(dx * dx) and sum(dy * dy), dx and
    dy being the distances from the means; else sum(weights * other)."""


def weight_of(expr: Expr) -> Reduction | None:
    """The maximum in exp(e - max(e))."""
    match expr:
        case Apply(op="exp", dtype="f32", args=(power,)):
            return distance_of(power)
    return None


def distance_of(expr: Expr) -> Reduction | None:
    """The maximum in e - max(e)."""
    match expr:
        case Apply(op="sub", dtype="f32", args=(operand, Reduction(op="max", body=body) as top)) if (
            body is operand
        ):
            return top
    return None


@dataclass(frozen=True)
class _Weighted:
    """sum(exp(e - max(e)) * inner)"""

    key: int
    top: int
    """Key of max(e)."""
    inner: Expr
    guarded: bool
    """Nothing where the weight is zero."""

    @property
    def against(self) -> int | None:
        """Key of the maximum that ``inner`` is a distance from."""
        found = distance_of(self.inner)
        return None if found is None else found.key


def joints_of(reductions: Mapping[int, Reduction]) -> list[Joint]:
    """What goes along with maxima whose operands need no reductions; no reduction is made twice."""
    tops = {key: r for key, r in reductions.items() if r.op == "max" and _is_free(r.body)}
    sums = {top.key: key for key, r in reductions.items() if r.op == "sum" and (top := weight_of(r.body))}
    weighted = [found for key, r in reductions.items() if (found := _weighted(key, r)) is not None]
    taken: set[int] = set()
    joints = [_divergence(one, weighted, tops, sums) or _plain(one, tops, sums) for one in weighted]
    joints += [_distances(key, r, tops, sums) for key, r in reductions.items()]
    made = []
    for joint in joints:
        if joint is not None and not taken & set(joint.keys):
            taken.update(joint.keys)
            made.append(joint)
    return made


def _is_free(expr: Expr) -> bool:
    return not any(isinstance(leaf, Reduction) for leaf in leaves(expr))


def _weighted(key: int, reduction: Reduction) -> _Weighted | None:
    body, guarded = reduction.body, False
    match body:
        case Apply(
            op="where",
            args=(
                Apply(op="eq", args=(tested, Const(value=limit))),
                Const(value=instead),
                Apply(op="mul", args=(weight, _)) as rest,
            ),
        ) if limit == 0 and instead == 0 and tested is weight:
            body, guarded = rest, True
    match body:
        case Apply(op="mul", dtype="f32", args=(weight, inner)) if reduction.op == "sum":
            top = weight_of(weight)
            return None if top is None else _Weighted(key, top.key, inner, guarded)
    return None


def _divergence(
    one: _Weighted, weighted: list[_Weighted], tops: Mapping[int, Reduction], sums: Mapping[int, int]
) -> Joint | None:
    other = one.against
    if one.guarded or other is None or other == one.top or not {one.top, other} <= tops.keys() & sums.keys():
        return None
    own = next((w for w in weighted if w.top == one.top and w.against == one.top), None)
    keys = (one.top, sums[one.top], other, sums[other], one.key)
    kind = "divergence" if own is not None and own.guarded else "divergence_open"
    return Joint(kind, tops[one.top].body, tops[other].body, keys if own is None else (*keys, own.key))


def _plain(one: _Weighted, tops: Mapping[int, Reduction], sums: Mapping[int, int]) -> Joint | None:
    if one.guarded or not _is_free(one.inner) or one.top not in tops.keys() & sums.keys():
        return None
    return Joint("weighted", tops[one.top].body, one.inner, (one.top, sums[one.top], one.key))


def _distances(
    key: int, reduction: Reduction, tops: Mapping[int, Reduction], sums: Mapping[int, int]
) -> Joint | None:
    top = distance_of(reduction.body) if reduction.op == "sum" else None
    if top is None or top.key not in tops.keys() & sums.keys():
        return None
    return Joint("distances", tops[top.key].body, None, (top.key, sums[top.key], key))
