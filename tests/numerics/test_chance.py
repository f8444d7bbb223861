"""No bound hangs on the luck of a draw: chains, poles, sums of small errors, differences of equals."""

from __future__ import annotations

from itertools import pairwise

import known_ops as ops
import pytest
import torch
from torch import Tensor

from workbench.model import OpNode
from workbench.numerics.compare import compare
from workbench.numerics.inputs import draw
from workbench.numerics.kinds import KINDS

STEPS = 64


def averaged(decay: float) -> ops.Op:
    """An exponential moving average, written as a loop: all of its steps are in the graph."""

    def call(x: Tensor) -> Tensor:
        held = torch.zeros_like(x[0])
        for row in x:
            held = decay * held + (1 - decay) * row
        return held

    nodes: list[OpNode] = [ops.node("h", "aten.zeros.default", (1000,))]
    before = "h"
    for step in range(STEPS):
        nodes += [
            ops.node(f"r{step}", "aten.select.int", ops.ref("x"), 0, step),
            ops.node(f"a{step}", "aten.mul.Tensor", ops.ref(before), decay),
            ops.node(f"b{step}", "aten.mul.Tensor", ops.ref(f"r{step}"), 1 - decay),
            ops.node(f"h{step}", "aten.add.Tensor", ops.ref(f"a{step}"), ops.ref(f"b{step}")),
        ]
        before = f"h{step}"
    return ops.make(call, {"x": (STEPS, 1000)}, tuple(nodes))


@pytest.mark.slow
@pytest.mark.parametrize("decay", [0.9, 0.99])
def test_a_loop_of_many_steps_needs_no_widening_on_any_draw(decay: float) -> None:
    """0.9 is off in float32 by the same part in every step, and what hardly changes is rounded alike."""
    op = averaged(decay)
    for kind in KINDS:
        for seed in range(3):
            ratio, bound = op.judge(op.call, kind, seed)
            assert bound.basis == "running error of the graph"
            assert ratio < 0.6, f"{kind}, seed {seed}"


def test_a_loop_in_lower_precision_and_one_that_leaves_out_a_step_are_caught() -> None:
    op = averaged(0.9)

    def rounded_in_between(x: Tensor) -> Tensor:
        held = torch.zeros_like(x[0])
        for row in x:
            held = (0.9 * held + 0.1 * row).half().float()
        return held

    def early(x: Tensor) -> Tensor:
        return op.call(x[1:])

    assert op.judge(rounded_in_between)[0] > 5
    assert op.judge(early)[0] > 5


def projected() -> ops.Op:
    """Points divided by a depth that is a sum of products, with a guard against zero."""

    def call(x: Tensor, w: Tensor) -> Tensor:
        depth = x @ w
        return 1 / torch.where(depth.abs() > 1e-8, depth, torch.ones_like(depth))

    return ops.make(
        call,
        {"x": (64, 3), "w": (3, 8)},
        (
            ops.node("z", "aten.mm.default", ops.ref("x"), ops.ref("w")),
            ops.node("size", "aten.abs.default", ops.ref("z")),
            ops.node("far", "aten.gt.Scalar", ops.ref("size"), 1e-8, dtype="bool"),
            ops.node("one", "aten.ones_like.default", ops.ref("z")),
            ops.node("d", "aten.where.self", ops.ref("far"), ops.ref("z"), ops.ref("one")),
            ops.node("y", "aten.reciprocal.default", ops.ref("d")),
        ),
    )


def test_beside_a_pole_a_quotient_may_be_anything_and_elsewhere_not() -> None:
    """The depth of the first point is 1e-7, of terms of a hundred: another sum of them gives another."""
    op = projected()
    tensors = draw(op.problem, op.problem.cases[0], "normal", 0)
    tensors["x"][0] = torch.tensor([100.0, -100.0, 2.0**-23])
    tensors["w"][:, 0] = 1.0
    bound = op.bound(tensors)
    right = bound.expected.float()
    for depth in (0.9e-7, 1.21e-7, 1.3e-7, -1e-7, 1.0):
        beside = right.clone()
        beside[0, 0] = 1 / depth
        assert compare(beside, bound).max_ratio <= 1, f"a depth of {depth}"
    wrong = right.clone()
    wrong[1:] *= 1.001
    assert compare(wrong, bound).wrong_fraction > 0.9
    assert int(bound.allowed.isinf().sum()) == 1


def test_a_term_too_few_and_a_count_too_small_go_together() -> None:
    """The mean of what is marked: with the first, which lies on the edge, 0 of 3, and -3 of 2 without."""
    op = ops.make(
        lambda x, mark: torch.where(mark.exp() <= 1, x, 0.0).sum(-1) / (mark.exp() <= 1).sum(-1),
        {"x": (1, 4), "mark": (1, 4)},
        (
            ops.node("e", "aten.exp.default", ops.ref("mark")),
            ops.node("few", "aten.le.Scalar", ops.ref("e"), 1.0, dtype="bool"),
            ops.node("none", "aten.zeros_like.default", ops.ref("x")),
            ops.node("kept", "aten.where.self", ops.ref("few"), ops.ref("x"), ops.ref("none")),
            ops.node("total", "aten.sum.dim_IntList", ops.ref("kept"), (-1,)),
            ops.node("count", "aten.sum.dim_IntList", ops.ref("few"), (-1,), dtype="i64"),
            ops.node("y", "aten.div.Tensor", ops.ref("total"), ops.ref("count")),
        ),
    )
    tensors = {
        "x": torch.tensor([[3.0, -1.0, -2.0, 5.0]]),
        "mark": torch.tensor([[-1e-9, -1.0, -1.0, 1.0]]),
    }
    bound = op.bound(tensors)
    for answer in (0.0, -1.5):
        assert compare(torch.tensor([answer]), bound).max_ratio <= 1
    assert compare(torch.tensor([-1.6]), bound).max_ratio > 1


def test_sums_of_small_errors_have_room_for_any_draw_of_them() -> None:
    """1 - exp(-x) of small x is off by what the exponential is, up to two units of the last place."""
    op = ops.make(
        lambda x: (1 - torch.exp(-x)).sum(-1),
        {"x": (4000, 192)},
        (
            ops.node("n", "aten.neg.default", ops.ref("x")),
            ops.node("e", "aten.exp.default", ops.ref("n")),
            ops.node("a", "aten.sub.Tensor", 1, ops.ref("e")),
            ops.node("y", "aten.sum.dim_IntList", ops.ref("a"), (-1,)),
        ),
    )
    x = draw(op.problem, op.problem.cases[0], "scale 1e-3", 0)["x"].abs() * 1e-2
    bound = op.bound({"x": x})
    for seed in range(4):
        drawn = torch.rand(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        off = (torch.exp(-x.double()) * (1 + 2.0**-22 * (2 * drawn - 1))).float()
        assert compare((1 - off).double().sum(-1).float(), bound).max_ratio <= 1
    assert compare((1 - torch.exp(-x)).half().float().sum(-1) * 1.01, bound).max_ratio > 1


def energies() -> ops.Op:
    """Of pairs that are not the same atom: a distance from oneself is zero, however it is rounded."""

    def call(x: Tensor) -> Tensor:
        squares = (x[:, None] - x[None]).square().sum(-1)
        near = squares > 0
        return torch.where(near, 1 / torch.where(near, squares, 1.0), 0.0).sum(-1)

    pairs = (
        ops.node("i", "aten.unsqueeze.default", ops.ref("x"), 1),
        ops.node("j", "aten.unsqueeze.default", ops.ref("x"), 0),
        ops.node("d", "aten.sub.Tensor", ops.ref("i"), ops.ref("j")),
        ops.node("d2", "aten.mul.Tensor", ops.ref("d"), ops.ref("d")),
        ops.node("r2", "aten.sum.dim_IntList", ops.ref("d2"), (-1,)),
        ops.node("near", "aten.gt.Scalar", ops.ref("r2"), 0, dtype="bool"),
        ops.node("one", "aten.ones_like.default", ops.ref("r2")),
        ops.node("none", "aten.zeros_like.default", ops.ref("r2")),
        ops.node("safe", "aten.where.self", ops.ref("near"), ops.ref("r2"), ops.ref("one")),
        ops.node("inverse", "aten.reciprocal.default", ops.ref("safe")),
        ops.node("e", "aten.where.self", ops.ref("near"), ops.ref("inverse"), ops.ref("none")),
        ops.node("y", "aten.sum.dim_IntList", ops.ref("e"), (-1,)),
    )
    return ops.make(call, {"x": (40, 3)}, pairs)


def test_differences_of_equals_are_zero_and_on_no_edge() -> None:
    op = energies()
    for kind in ("normal", "scale 64", "offset"):
        ratio, bound = op.judge(op.call, kind)
        assert ratio <= 1
        assert bound.decisive, f"nothing tells {kind} energies from zero"
        assert bool(torch.isfinite(bound.allowed).all())


def test_a_number_that_float32_does_not_have_is_another_one_there() -> None:
    """Of 0.9999999 float32 makes 0.99999988, of which 1 is a fifth further away."""
    op = ops.make(
        lambda x: torch.log(1 - x.clamp(max=0.9999999)),
        {"x": (3,)},
        (
            ops.node("c", "aten.clamp.default", ops.ref("x"), None, 0.9999999),
            ops.node("rest", "aten.sub.Tensor", 1, ops.ref("c")),
            ops.node("y", "aten.log.default", ops.ref("rest")),
        ),
    )
    tensors = {"x": torch.tensor([2.0, 0.5, 0.9])}
    bound = op.bound(tensors)
    right = op.call(**tensors)
    assert abs(float(bound.expected[0]) - float(right[0])) > 0.1
    assert bound.basis == "running error of the graph"
    assert compare(right, bound).max_ratio <= 1
    assert compare(right * torch.tensor([1.0, 1.001, 1.0]), bound).max_ratio > 1


def test_what_is_stored_in_16_bits_between_adds_up() -> None:
    """Two products and their sum, each rounded by half a unit the same way; and products of products."""
    op = ops.make(
        lambda x, w, v: x * w + x * v,
        {"x": (40, 500), "w": (500,), "v": (500,)},
        (
            ops.node("a", "aten.mul.Tensor", ops.ref("x"), ops.ref("w"), dtype="bf16"),
            ops.node("b", "aten.mul.Tensor", ops.ref("x"), ops.ref("v"), dtype="bf16"),
            ops.node("y", "aten.add.Tensor", ops.ref("a"), ops.ref("b"), dtype="bf16"),
        ),
        dtype="bf16",
    )
    for kind in ("normal", "scale 64", "heavy-tailed"):
        for seed in range(3):
            ratio, bound = op.judge(op.call, kind, seed)
            assert bound.basis == "running error of the graph"
            assert 0.7 < ratio <= 1

    def chained(x: Tensor, w: Tensor) -> Tensor:
        for _ in range(8):
            x = x * w
        return x

    names = ["x", *"abcdefgh"]
    nodes = [
        ops.node(after, "aten.mul.Tensor", ops.ref(before), ops.ref("w"), dtype="bf16")
        for before, after in pairwise(names)
    ]
    op = ops.make(chained, {"x": (40, 500), "w": (500,)}, tuple(nodes), dtype="bf16")
    assert all(op.judge(op.call, seed=seed)[1].basis == "running error of the graph" for seed in range(5))
