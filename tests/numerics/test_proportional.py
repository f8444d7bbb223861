"""Errors of sums and products: what is multiplied is what trying both ends shows, and what is known is so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch

from workbench.model import DType
from workbench.numerics import pointwise as rules
from workbench.numerics.pointwise import pointwise
from workbench.numerics.proportional import factors
from workbench.numerics.tracked import Step, Tracked, exact

aten = torch.ops.aten
SHAPES = ((4, 6), (1, 6), (4, 1), ())


def drawn(shape: tuple[int, ...], seed: int, *, shared: bool = True) -> Tracked:
    """Values around one with errors of both kinds, some of them nothing."""
    generator = torch.Generator().manual_seed(seed)
    value, one, other = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(3))
    independent = (1e-7 * one).clamp_min(0.0)
    return Tracked(value, independent, (1e-7 * other).clamp_min(0.0) if shared else 0 * other, "f32")


BINARY: dict[str, Callable[..., Any]] = {
    "add": aten.add.Tensor, "sub": aten.sub.Tensor, "rsub": aten.rsub.Tensor, "mul": aten.mul.Tensor,
}  # fmt: skip
NUMBERS: dict[str, Callable[..., Any]] = {
    "add": aten.add.Scalar, "sub": aten.sub.Scalar, "rsub": aten.rsub.Scalar, "mul": aten.mul.Scalar,
}  # fmt: skip


def both_ways(
    monkeypatch: pytest.MonkeyPatch, name: str, op: Any, args: list[Any], dtype: DType
) -> tuple[Tracked, Tracked]:
    """In proportion, and by the ends."""
    assert factors(name, args, {}) is not None
    fast = pointwise(name, op, args, {}, dtype)
    with monkeypatch.context() as patched:
        patched.setattr(rules, "factors", lambda *_: None)
        return fast, pointwise(name, op, args, {}, dtype)


def alike(one: Tracked, other: Tracked) -> None:
    for mine, theirs in (
        (one.value, other.value), (one.independent, other.independent), (one.shared, other.shared),
    ):  # fmt: skip
        torch.testing.assert_close(mine.expand(one.value.shape), theirs.expand(one.value.shape), rtol=1e-6,
                                   atol=1e-14)  # fmt: skip
    assert one.span == other.span and one.is_exact == other.is_exact
    assert one.is_bounded == other.is_bounded and one.is_finite == other.is_finite


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    for first, second in product(SHAPES, SHAPES):
        for shared in (True, False):
            pair = [drawn(first, 1, shared=shared), drawn(second, 2)]
            alike(*both_ways(monkeypatch, name, BINARY[name], pair, dtype))
        known = exact(drawn(second, 3).value.float(), "f32")
        alike(*both_ways(monkeypatch, name, BINARY[name], [drawn(first, 1), known], dtype))


@pytest.mark.parametrize("number", [0, 3, -0.25, 0.1, -1e-3])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number(name: str, number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    alike(*both_ways(monkeypatch, name, NUMBERS[name], [drawn((4, 6), 5), number], "f32"))


def test_a_minus_and_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    alike(*both_ways(monkeypatch, "neg", aten.neg.default, [drawn((4, 6), 5)], "f32"))
    mask = exact(torch.arange(24).reshape(4, 6) % 3 == 0, "bool")
    alike(*both_ways(monkeypatch, "mul", aten.mul.Tensor, [drawn((4, 6), 5), mask], "f32"))


def test_a_chain_knows_what_asking_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a result is known to be spares asking, so asking must say the same."""
    x, y = exact(torch.randn(8, 16), "f32"), exact(torch.randn(8, 16), "f32")
    for _ in range(6):
        x = pointwise("mul", aten.mul.Tensor, [x, y], {}, "f32")
        y = pointwise(
            "add", aten.add.Tensor, [pointwise("exp", aten.exp.default, [y], {}, "f32"), x], {}, "f32"
        )
        for one in (x, y):
            asked = replace(one)  # knows nothing
            assert one.is_exact == asked.is_exact and one.is_bounded == asked.is_bounded
            assert one.has_shared or not asked.has_shared
            torch.testing.assert_close(one.error, asked.error)


@pytest.mark.parametrize("what", ["infinite", "nan", "error", "step", "span", "same", "alpha", "number"])
def test_elsewhere_the_ends_are_tried(what: str) -> None:
    one, other = drawn((4, 6), 1), drawn((4, 6), 2)
    assert factors("mul", [one, other], {}) is not None
    value, error = one.value.clone(), one.independent.clone()
    edge = torch.zeros_like(value)
    value[0, 0] = torch.inf if what == "infinite" else torch.nan
    error[0, 0] = torch.inf
    odd: dict[str, tuple[list[Any], dict[str, Any]]] = {
        "infinite": ([replace(one, value=value), other], {}),
        "nan": ([replace(one, value=value), other], {}),
        "error": ([replace(one, independent=error), other], {}),
        "step": ([replace(one, step=Step(edge, edge, edge)), other], {}),
        "span": ([replace(one, span=(0.0, 1.0)), other], {}),
        "same": ([one, one], {}),
        "alpha": ([one, other], {"alpha": 2}),
        "number": ([one, float("inf")], {}),
    }
    args, kwargs = odd[what]
    assert factors("mul", args, kwargs) is None
