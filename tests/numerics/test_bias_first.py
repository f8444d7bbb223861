"""A sum that begins with the bias is another order of the same sum: it passes, lower precision does not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workbench.numerics import linear
from workbench.numerics.tracked import Tracked, exact

ROWS, INNER, COLUMNS = 64, 512, 32


def drawn(scale: float) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    a, b = torch.randn(ROWS, INNER) * scale, torch.randn(INNER, COLUMNS) / INNER**0.5
    return a, b, torch.randn(COLUMNS)


def bound(a: Tensor, b: Tensor, bias: Tensor) -> Tracked:
    product = linear.contraction(torch.matmul, exact(a, "f32"), exact(b, "f32"), INNER, "f32")
    return linear.plus(product, exact(bias, "f32"), "f32", INNER)


def bias_first(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    """What a thread does that begins its accumulator with the bias: one product after the other."""
    total = bias.expand(ROWS, COLUMNS).clone()
    for k in range(INNER):
        total = total + a[:, k : k + 1] * b[k]
    return total


@pytest.mark.parametrize("scale", [1e-3, 1.0, 64.0])
def test_a_sum_may_begin_with_the_bias(scale: float) -> None:
    a, b, bias = drawn(scale)
    allowed = bound(a, b, bias)
    off = (bias_first(a, b, bias).double() - allowed.value.double()).abs()
    assert bool((off <= allowed.error).all()), float((off / allowed.error).max())


@pytest.mark.parametrize("scale", [1e-3, 1.0])
def test_and_half_precision_still_fails(scale: float) -> None:
    a, b, bias = drawn(scale)
    allowed = bound(a, b, bias)
    for dtype in (torch.bfloat16, torch.float16):
        low = (a.to(dtype).float() @ b.to(dtype).float() + bias).to(torch.float64)
        assert bool(((low - allowed.value.double()).abs() > allowed.error).any())
    rounded = (a @ b + bias).to(torch.bfloat16).double()
    assert bool(((rounded - allowed.value.double()).abs() > allowed.error).any())
