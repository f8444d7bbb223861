"""A division by what a row shares, rounded afterwards: exact without a division, wherever it is rounded."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.playbook.problems import problem_of
from tests.playbook.running import run
from workbench.model import Vector
from workbench.playbook.device_functions.cuda_helpers import helper_texts
from workbench.playbook.generate import generate

Tensors = dict[str, torch.Tensor]
REGISTERS: Vector = (("row_cache", "registers"), ("vector_width", "4"))
EXTREMES = [0.0, 1e-45, 1e-40, 2.0**-126, 1e-30, 2.0**-64, 1.0, 3.0, 2.0**64, 1e30, 2.0**126, 3e38, math.inf]
DIVIDE = (
    """/* plan
def plan(a, d):
    require(a.ndim == 1 and a.is_contiguous and d.is_contiguous, "in a line")
    (n,) = a.shape
    q = empty((n,), f32)
    launch("divide", grid=cdiv(n, 256), block=256, args=[a, d, q, n])
    return q
*/
"""
    + "\n".join(helper_texts(["over_shared", "usual_scale"]))
    + """
extern "C" __global__ void divide(const float* a, const float* d, float* q, int n) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        const float scale = usual_scale(d[i]), divisor = d[i] * scale;
        q[i] = over_shared(a[i] * scale, divisor, 1.0f / divisor);
    }
}
"""
)


def divided(a: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
    """As rows do it, each element a row."""
    return run(DIVIDE, {"a": a, "d": d}).outputs[0]


def drawn(count: int, least: int, most: int) -> torch.Tensor:
    """Any digits and signs, exponents from one to the other."""
    draw = torch.Generator().manual_seed(count)
    sizes = 1.0 + torch.randint(0, 2**23, (count,), generator=draw).double() / 2**23
    signs = 1.0 - 2.0 * torch.randint(0, 2, (count,), generator=draw).double()
    return (signs * sizes * 2.0 ** torch.randint(least, most, (count,), generator=draw).double()).float()


def near_halves() -> tuple[torch.Tensor, torch.Tensor]:
    """Quotients as near as any to the middle between two floats: the hardest to round.

    Of whole numbers a, d of 24 bits and m of 25: a * 2^k = m * d + c with a small odd c.
    """
    draw = np.random.default_rng(7)
    divisors = 2 * draw.integers(2**22, 2**23, 60000, dtype=np.int64) + 1
    divisors[:2000] = 2**24 - 1 - 2 * np.arange(2000)
    inverse = np.ones_like(divisors)
    for _ in range(5):  # Newton's steps double the bits that are right
        inverse = inverse * (2 - divisors * inverse % 2**25) % 2**25
    tops, bottoms = [], []
    for k in (24, 25):
        for c in (-5, -3, -1, 1, 3, 5):
            middle = -c * inverse % 2**k
            middle += 2**24 if k == 24 else 0
            top = middle * divisors + c
            there = (middle >= 2**24) & (top % 2**k == 0) & (top >> k >= 2**23) & (top >> k < 2**24)
            tops.append(top[there] >> k)
            bottoms.append(divisors[there])
    return torch.from_numpy(np.concatenate(tops)).float(), torch.from_numpy(np.concatenate(bottoms)).float()


def test_quotients_that_are_hard_to_round() -> None:
    a, d = near_halves()
    assert len(a) > 200000
    for scale in (1.0, 2.0**-110, 2.0**90):
        torch.testing.assert_close(divided(a, d * scale), a / (d * scale), rtol=0.0, atol=0.0)
    once = (a * (1.0 / d) != a / d).float().mean()
    assert once > 0.2  # a product alone is not enough: these would tell


@pytest.mark.parametrize("size", [0, -149, -120, -64, 64, 100, 126])
def test_quotients_of_any_digits_by_divisors_of_any_size(size: int) -> None:
    d = drawn(200000, size, size + 1)
    a = d * drawn(200001, -16, 17)[:-1]
    a = torch.where(a.isfinite(), a, 1.0)
    want = a / d
    apart = (want.abs() >= 2.0**-17) & want.isfinite()
    assert apart.float().mean() > 0.5
    torch.testing.assert_close(divided(a, d)[apart], want[apart], rtol=0.0, atol=0.0)


def test_extremes_come_out_as_those_of_a_division() -> None:
    values = torch.tensor([*EXTREMES, *(-x for x in EXTREMES), math.nan])
    a, d = (part.reshape(-1).contiguous() for part in torch.meshgrid(values, values, indexing="ij"))
    got, want = divided(a, d), a / d
    torch.testing.assert_close(got.isnan(), want.isnan())
    torch.testing.assert_close(got.round(), want.round(), rtol=0.0, atol=0.0, equal_nan=True)
    torch.testing.assert_close(got, want, rtol=2.0**-22, atol=0.0, equal_nan=True)


def to_bytes(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    low, high = t["x"].amin(-1, keepdim=True), t["x"].amax(-1, keepdim=True)
    scale = (high - low) / 255
    return ((t["x"] - low) / scale).round().clamp(0, 255).to(torch.uint8), scale


def to_whole(t: Tensors) -> torch.Tensor:
    return (9 * t["x"] / t["x"].abs().amax(-1, keepdim=True)).trunc() + (t["x"] / t["s"]).to(torch.int32)


def bounded(t: Tensors) -> torch.Tensor:
    return (t["x"] / t["s"]).clamp(-127.5, 127.5).round() * t["s"] + t["x"].sum(-1, keepdim=True)


@pytest.mark.many(2)
@pytest.mark.parametrize(("call", "places"), [(to_bytes, 1), (to_whole, 2), (bounded, 1)])
def test_what_is_rounded_has_a_reciprocal_a_row(call: Callable[[Tensors], torch.Tensor], places: int) -> None:
    odd = [torch.zeros(1, 64), torch.full((1, 64), 1e-42), 1e30 * torch.randn(3, 64)]
    x = torch.cat([torch.randn(30, 64), *odd])
    tensors = {"x": x, "s": x.abs().mean(-1, keepdim=True) / 9}
    source = generate(problem_of(call, tensors), REGISTERS).kernel.source
    assert source.count("over_shared(") == 1 + places
    assert " / " not in source.split("over_shared(")[-1]
    got, want = run(source, tensors).outputs[0], call(tensors)
    want = want[0] if isinstance(want, tuple) else want
    usual = torch.arange(len(x)) != 30  # a row of zeros divides by 0: what NaN is as a byte is open
    torch.testing.assert_close(got[usual], want[usual], rtol=1e-5, atol=1e-5 * (got.dtype == torch.float32))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: (t["x"] / t["s"]) + t["x"].sum(-1, keepdim=True),
        lambda t: (t["x"] / t["s"] + 0.5).round() + t["x"].sum(-1, keepdim=True),
        lambda t: (t["x"] / t["y"]).round() + t["x"].sum(-1, keepdim=True),
        lambda t: (t["x"] / t["s"] > 1.0) + t["x"].sum(-1, keepdim=True),
    ],
)
def test_only_what_is_rounded_by_itself_and_by_a_value_of_the_row(
    call: Callable[[Tensors], torch.Tensor],
) -> None:
    tensors = {"x": torch.randn(4, 64), "y": torch.rand(4, 64) + 1, "s": torch.rand(4, 1) + 1}
    assert "over_shared" not in generate(problem_of(call, tensors), REGISTERS).kernel.source
