"""Ends that no honest value lies beyond, and bounds that know them."""

from __future__ import annotations

import math
from dataclasses import replace

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import Arg, Graph, OpNode
from workbench.numerics.compare import compare
from workbench.numerics.pointwise import pointwise
from workbench.numerics.running import Running
from workbench.numerics.tracked import ANYWHERE, Span, Tracked, exact

X = ops.ref("x")


def span(*nodes: OpNode) -> Span:
    graph = Graph(nodes=nodes, outputs=(ops.ref(nodes[-1].name),))
    (made,) = Running(sizes={}).outputs(graph, {"x": torch.randn(4, 6)})
    assert bool((made.value >= made.span[0]).all()) and bool((made.value <= made.span[1]).all())
    return made.span


def after(op: str, *args: Arg, before: str = "sigmoid") -> Span:
    return span(ops.node("p", f"aten.{before}.default", X), ops.node("y", op, *args))


P = ops.ref("p")


@pytest.mark.parametrize(
    ("found", "least", "most"),
    [
        (after("aten.neg.default", P), -1.0, 0.0),
        (after("aten.sub.Tensor", 1, P), 0.0, 1.0),
        (after("aten.mul.Tensor", P, P), 0.0, 1.0),
        (after("aten.mul.Tensor", P, -3.0, before="tanh"), -3.0, 3.0),
        (after("aten.add.Tensor", P, 1e-8), 1e-8, 1.0),
        (after("aten.log.default", P), -math.inf, 0.0),
        (after("aten.add.Tensor", P, X), -math.inf, math.inf),
        (after("aten.mul.Tensor", P, X), -math.inf, math.inf),
        (after("aten.div.Tensor", P, P, before="exp"), 0.0, math.inf),
        (after("aten.div.Tensor", 1.0, P, before="exp"), -math.inf, math.inf),
        (after("aten.sum.dim_IntList", P, (1,)), 0.0, math.inf),
        (after("aten.mean.dim", P, (1,), before="tanh"), -math.inf, math.inf),
        (after("aten.amax.default", P, (1,), True), 0.0, 1.0),
        (after("aten.permute.default", P, (1, 0)), 0.0, 1.0),
        (after("aten.cat.default", (P, X)), -math.inf, math.inf),
        (after("aten.constant_pad_nd.default", P, (1, 1), 7.0), -math.inf, math.inf),
        (after("aten.clamp.default", P, 0.25), 0.25, 1.0),
    ],
)
def test_ends_of_what_is_made_of_a_sigmoid_and_the_like(found: Span, least: float, most: float) -> None:
    for one, end in zip(found, (least, most), strict=True):
        assert one == end or abs(one - end) < (1e-3 * abs(end) if 0 < end < 1e-6 else 2e-6)


def test_what_was_given_has_no_ends() -> None:
    assert span(ops.node("y", "aten.add.Tensor", X, 1.0)) == ANYWHERE


def focal(eps: float = 1e-8, rows: int = 400) -> ops.Op:
    """log(1 - sigmoid + eps), as a detector's costs have it."""

    def call(x: Tensor) -> Tensor:
        return (1 - x.sigmoid() + eps).log()

    return ops.make(
        call,
        {"x": (rows,)},
        (
            ops.node("p", "aten.sigmoid.default", X),
            ops.node("rest", "aten.sub.Tensor", 1, P),
            ops.node("more", "aten.add.Tensor", ops.ref("rest"), eps),
            ops.node("y", "aten.log.default", ops.ref("more")),
        ),
    )


def test_a_sigmoid_that_rounding_makes_one_leaves_the_rest_nothing() -> None:
    """Its logarithm is that of 1e-8, far below what the ends of the error said, one of which is no number."""
    op, x = focal(), torch.linspace(10.0, 20.0, 400)
    bound = op.bound({"x": x})
    assert bound.basis == "running error of the graph"
    off = 2.0**-23
    for moved in (-off, 0.0, off):
        p = (x.sigmoid() + moved).clamp(0, 1)
        assert compare((1 - p + 1e-8).log(), bound).max_ratio <= 1
    for wrong in ((1 - x.sigmoid()).log(), (1 - x.sigmoid() + 1e-10).log(), torch.full_like(x, torch.nan)):
        assert compare(wrong, bound).max_ratio > 1
    assert compare(op.call(x) * 1.01, bound).max_ratio > 1


def test_where_there_may_be_nothing_the_other_end_of_a_logarithm_speaks_for_both() -> None:
    """A softmax's share times its logarithm is asked for where the share may be nothing; as is log(1 - p)."""
    op, x = focal(0.0), torch.tensor([2.0, 5.0, 15.3])
    bound = op.bound({"x": x})
    assert bool((bound.allowed < 5).all()) and float(bound.allowed[2]) > 1
    nodes = (
        ops.node("p", "aten.exp.default", X),
        ops.node("log", "aten.log.default", P),
        ops.node("y", "aten.mul.Tensor", P, ops.ref("log")),
    )
    graph = Graph(nodes=nodes, outputs=(ops.ref("y"),))
    (made,) = Running(sizes={}).outputs(graph, {"x": torch.tensor([-2.0, -88.0, -95.0])})
    assert bool((made.error < 1e-5).all())


def test_what_overflowed_is_no_pole_of_what_is_behind_it() -> None:
    """float32's square of 3e19 is infinite, and so is its root and one more than that."""
    nodes = (
        ops.node("s", "aten.mul.Tensor", X, X),
        ops.node("c", "aten.clamp.default", ops.ref("s"), 0.1),
        ops.node("r", "aten.sqrt.default", ops.ref("c")),
        ops.node("y", "aten.add.Tensor", ops.ref("r"), 1.0),
    )
    graph = Graph(nodes=nodes, outputs=(ops.ref("y"),))
    (made,) = Running(sizes={}).outputs(graph, {"x": torch.tensor([3.0, 1e19, 3e19])})
    assert made.error.isinf().tolist() == [False, False, True]


def test_a_share_that_rounding_makes_nothing_may_meet_an_infinity() -> None:
    """An infinite price times a share of 1e-20: infinite in float64, NaN where the share has become zero."""
    nodes = (
        ops.node("e", "aten.erf.default", X),
        ops.node("a", "aten.add.Tensor", ops.ref("e"), 1.0),
        ops.node("y", "aten.mul.Tensor", ops.ref("a"), ops.ref("z")),
    )
    graph = Graph(nodes=nodes, outputs=(ops.ref("y"),))
    x = torch.tensor([0.5, -5.5], dtype=torch.float64)
    (made,) = Running(sizes={}).outputs(graph, {"x": x, "z": torch.full((2,), torch.inf)})
    assert made.value.isinf().all() and made.error.tolist() == [0.0, torch.inf]


def test_two_values_that_may_be_anything_make_a_third() -> None:
    """NaN less NaN, where rounding decides whether each is one: moved alone, neither seems to matter."""
    unsure = Tracked(
        torch.tensor([torch.nan, 1.0], dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
        torch.tensor([torch.inf, 0.0], dtype=torch.float64),
        "f32",
    )
    sure = exact(torch.tensor([torch.nan, torch.nan], dtype=torch.float64), "f32")
    other = replace(unsure, value=unsure.value.clone())
    op = torch.ops.aten.sub.Tensor
    assert pointwise("sub", op, [unsure, other], {}, "f32").error[0].isinf()
    assert pointwise("sub", op, [unsure, sure], {}, "f32").error.tolist() == [0.0, 0.0]
