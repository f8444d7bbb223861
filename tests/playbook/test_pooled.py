"""Pools behind a convolution on tensor cores: a warp has whole windows, of which values alone are stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.convolving import with_one
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, run
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]
Pool = Callable[[Tensor], Tensor]
THREADS = ("256", "128")


def pooled(pool: Pool, **settings: Any) -> Call:
    def call(t: Tensors) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[t["x"].ndim - 3]
        return pool(torch.relu(convolve(t["x"], t["w"], t.get("b"), **settings)))

    return call


def largest(*sides: int) -> Pool:
    return lambda x: (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(sides) - 1](x, sides)


def mean(*sides: int) -> Pool:
    return lambda x: (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(sides) - 1](x, sides)


def sum_of_two(x: Tensor) -> Tensor:
    """Of a window's four results two are needed: no pool has them."""
    return x[..., ::2, ::2] + x[..., 1::2, 1::2]


def behind(t: Tensors) -> tuple[Tensor, Tensor]:
    """Two results of each window, with a value a channel, a residual and places."""
    made = torch.tanh(F.conv2d(t["x"], t["w"], t["b"], padding=1)) * t["s"][:, None, None]
    small = F.max_pool2d(made, 2)
    return small + t["r"], F.avg_pool2d(made, 2) * torch.arange(small.shape[-1])


CASES: dict[str, tuple[Call, Tensors]] = {
    "plane": (pooled(largest(2, 2), padding=1), of(x=(2, 6, 12, 20), w=(32, 6, 3, 3), b=(32,))()),
    "odd sides": (pooled(largest(2, 2), padding=1), of(x=(2, 6, 11, 21), w=(17, 6, 3, 3), b=(17,))()),
    "many channels": (pooled(mean(2, 2)), of(x=(2, 8, 13, 18), w=(72, 8, 2, 2), b=(72,))()),
    "channels of two tiles": (pooled(largest(2, 2)), of(x=(1, 12, 9, 13), w=(136, 12, 2, 2))()),
    "eight, of many channels": (pooled(mean(2, 4)), of(x=(1, 16, 10, 18), w=(72, 16, 2, 2), b=(72,))()),
    "two columns": (pooled(largest(2, 1)), of(x=(1, 8, 140, 4), w=(16, 8, 1, 3), b=(16,))()),
    "rows": (pooled(mean(1, 4), stride=(1, 2)), of(x=(2, 5, 9, 66), w=(16, 5, 3, 3), b=(16,))()),
    "columns": (pooled(largest(2, 1), padding=(1, 0)), of(x=(2, 9, 10, 12), w=(24, 9, 3, 1), b=(24,))()),
    "sixteen": (pooled(mean(4, 4)), of(x=(2, 4, 22, 30), w=(12, 4, 3, 3), b=(12,))()),
    "in groups": (pooled(largest(2, 2), groups=2), of(x=(2, 12, 9, 18), w=(70, 6, 2, 2), b=(70,))()),
    "one by one": (pooled(mean(2, 2)), of(x=(2, 36, 8, 12), w=(32, 36, 1, 1), b=(32,))()),
    "line": (pooled(largest(4), padding=2), of(x=(2, 12, 75), w=(40, 12, 5), b=(40,))()),
    "planes of a volume": (
        pooled(largest(1, 2, 2), padding=1),
        of(x=(1, 4, 3, 8, 12), w=(16, 4, 3, 3, 3), b=(16,))(),
    ),
    "two results": (
        behind,
        of(x=(2, 6, 8, 12), w=(24, 6, 3, 3), b=(24,), s=(24,), r=(2, 24, 4, 6))(),
    ),
}


def vector(threads: str) -> Vector:
    return (("block_size", threads), ("convolution", "patches"))


@pytest.mark.many(37)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", CASES)
def test_right(name: str, threads: str) -> None:
    call, tensors = CASES[name]
    tensors = {**tensors, "w": 0.25 * tensors["w"]}
    source = generate(problem_of(call, tensors, varying=False), vector(threads)).kernel.source
    assert source.count("__global__") == 1 and "WINDOWS" in source
    check(call, source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_in_no_other_window(value: float) -> None:
    call, tensors = CASES["plane"]
    tensors = with_one(tensors, value)
    source = generate(problem_of(call, tensors, varying=False), vector("256")).kernel.source
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.many(7)
@pytest.mark.parametrize(
    ("then", "settings"),
    [
        (lambda x: F.max_pool2d(x, 3, stride=2), {}),  # windows that overlap
        (lambda x: F.max_pool2d(x, 2, padding=1), {}),
        (lambda x: F.avg_pool2d(x, 3), {}),  # no part of a warp's places
        (sum_of_two, {}),
        (largest(2, 2), {"groups": 1, "stride": (1, 5)}),
    ],
)
def test_other_windows_are_a_kernel_of_their_own_or_right(then: Pool, settings: dict[str, Any]) -> None:
    call, tensors = pooled(then, **settings), of(x=(2, 8, 17, 33), w=(16, 8, 2, 2), b=(16,))()
    source = generate(problem_of(call, tensors, varying=False), vector("256")).kernel.source
    assert ("WINDOWS" in source) == (source.count("__global__") == 1) == ("stride" in settings)
    check(call, source, tensors)


def test_kinds_of_places_have_no_windows_in_common() -> None:
    """A transposed convolution by two: a window's results are of four kinds, which lie in four tiles."""

    def call(t: Tensors) -> Tensor:
        return F.max_pool2d(F.conv_transpose2d(t["x"], t["w"], stride=2), 2)

    tensors = of(x=(1, 12, 5, 6), w=(12, 16, 4, 4))()
    source = generate(problem_of(call, tensors, varying=False), vector("256")).kernel.source
    assert "WINDOWS" not in source
    check(call, source, tensors)


def test_what_is_pooled_in_the_convolutions_kernel_is_nobody_elses_to_decide() -> None:
    call, tensors = CASES["plane"]
    problem = problem_of(call, tensors, varying=False)
    alone = dict(settled(problem, (("convolution", "8x8"), ("block_size", "128"))))
    joined = dict(settled(problem, vector("256")))
    assert "loads_in_flight" in alone and "loads_in_flight" not in joined
