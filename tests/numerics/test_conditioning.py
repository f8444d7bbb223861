"""How far references move with their inputs, and what bounds make of it."""

from __future__ import annotations

import known_ops as ops
import torch
from torch import Tensor

from workbench.numerics.bounds import bounds
from workbench.numerics.compare import compare
from workbench.numerics.conditioning import Oracle
from workbench.numerics.dtypes import U32
from workbench.numerics.inputs import draw


def test_results_move_as_their_condition_says() -> None:
    """A difference of nearly equal numbers moves with those, a product by its own rounding."""
    tensors = {"x": torch.tensor([3.0, 1.0]), "y": torch.tensor([1.0, 1.0 - 2.0**-20]), "n": torch.tensor(2)}

    def call(given: dict[str, Tensor]) -> tuple[Tensor, ...]:
        x, y = given["x"].double(), given["y"].double()
        return x * y, x - y, (x - y) * given["n"]

    product, difference, twice = Oracle(call(tensors), call).swings(tensors)  # type: ignore[arg-type]
    assert 0.1 * U32 < float(product[0]) / 3 <= 2.01 * U32
    assert 0.1 * U32 < float(difference[1]) <= 2.01 * U32
    assert float(difference[1]) > 1e4 * U32 * 2.0**-20
    assert torch.allclose(twice, 2 * difference)


def test_what_cannot_be_run_again_does_not_move() -> None:
    tensors = {"x": torch.ones(3)}

    def call(given: object) -> tuple[Tensor, ...]:
        raise TypeError("float64 is not taken")

    assert not bool(Oracle((torch.ones(3),), call).swings(tensors)[0].any())
    assert not bool(Oracle((torch.ones(3),)).swings(tensors)[0].any())


def crossed() -> ops.Op:
    """A difference of products that the reference rounds to bfloat16 and the graph says it does not."""

    def call(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
        return a * b - c * d

    wide = [ops.node(f"{n}w", "prims.convert_element_type.default", ops.ref(n), "f32") for n in "abcd"]
    return ops.make(
        call,
        dict.fromkeys("abcd", (20000,)),
        (
            *wide,
            ops.node("ab", "aten.mul.Tensor", ops.ref("aw"), ops.ref("bw")),
            ops.node("cd", "aten.mul.Tensor", ops.ref("cw"), ops.ref("dw")),
            ops.node("w", "aten.sub.Tensor", ops.ref("ab"), ops.ref("cd")),
            ops.node("y", "prims.convert_element_type.default", ops.ref("w"), "bf16", dtype="bf16"),
        ),
        dtype="bf16",
    )


def test_elements_that_cancel_in_the_reference_do_not_open_the_others() -> None:
    op = crossed()
    tensors = draw(op.problem, op.problem.cases[0], "normal", 0)
    bound = op.bound(tensors)
    right = op.call(**tensors)
    assert "what a rounding of the inputs does to it" in bound.basis
    assert compare(right, bound).max_ratio <= 1
    exact = bound.expected.to(torch.bfloat16)
    assert compare(exact, bound).max_ratio <= 1
    assert compare(exact * 1.1, bound).wrong_fraction > 0.5
    alike = bounds(op.problem, {}, tensors, Oracle(op.wide(tensors)), lambda: (right,))[0]
    assert "widened" in alike.basis
    assert compare(exact * 1.1, alike).wrong_fraction < 0.1


def test_a_reference_that_is_exact_by_luck_still_leaves_room() -> None:
    """Without a graph, of a sum that cancels: the next kernel adds in another order."""
    op = ops.make(lambda x: x.sum(-1), {"x": (4, 1000)}, ())
    x = draw(op.problem, op.problem.cases[0], "normal", 0)["x"]
    x[:, -1] -= x.double().sum(-1).float()
    tensors = {"x": x}
    wide = op.wide(tensors)
    lucky = (wide[0].float(),)
    bound = bounds(op.problem, {}, tensors, Oracle(wide, op.wide), lambda: lucky)[0]
    total = torch.zeros(4)
    for column in x.unbind(-1):
        total = total + column
    assert compare(total, bound).max_ratio <= 1
    assert compare(total, bounds(op.problem, {}, tensors, Oracle(wide), lambda: lucky)[0]).max_ratio > 1
    assert compare(x.half().float().sum(-1), bound).max_ratio > 5


def test_indices_that_a_rounding_moves_may_be_either() -> None:
    op = ops.make(lambda x: (x * 3).floor().to(torch.int32), {"x": (3,)}, (), out="i32")
    x = torch.tensor([1 / 3 + 1e-8, 0.5, 2.0])
    tensors = {"x": x}
    bound = op.bound(tensors)
    assert compare(torch.tensor([0, 1, 6], dtype=torch.int32), bound).max_ratio <= 1
    assert compare(torch.tensor([1, 1, 6], dtype=torch.int32), bound).max_ratio <= 1
    assert compare(torch.tensor([1, 0, 6], dtype=torch.int32), bound).max_ratio > 1


def test_results_of_other_shapes_tell_nothing() -> None:
    """Of a double the bits are two columns of int32, for which a result of one would be repeated."""

    def call(t: dict[str, Tensor]) -> tuple[Tensor]:
        return (t["x"] * t["x"].view(torch.int32),)

    tensors = {"x": torch.ones(1, 1)}
    (swing,) = Oracle(call(tensors), call).swings(tensors)  # type: ignore[arg-type]
    assert swing.shape == (1, 1) and not bool(swing.any())
