"""Rows of channels behind a convolution on tensor cores: none of its results goes to memory."""

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
Result = Tensor | tuple[Tensor, ...]
Behind = Callable[[Tensor], Result]


def behind(then: Behind, **settings: Any) -> Call:
    def call(t: Tensors) -> Result:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[t["x"].ndim - 3]
        if settings.get("transposed"):
            given = {name: value for name, value in settings.items() if name != "transposed"}
            return then(F.conv_transpose2d(t["x"], t["w"], t.get("b"), **given))
        return then(convolve(t["x"], t["w"], t.get("b"), **settings))

    return call


def normed(x: Tensor) -> Tensor:
    """A norm over channels, as in ConvNeXt."""
    mean = x.mean(1, keepdim=True)
    return (x - mean) * torch.rsqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)


def two(x: Tensor) -> tuple[Tensor, Tensor]:
    """A value a place and one a channel."""
    return x.amax(1), torch.sigmoid(x - x.amax(1, keepdim=True))


CASES: dict[str, tuple[Call, Tensors]] = {
    "smallest": (
        behind(lambda x: torch.tanh(x.amin(1, keepdim=True)), padding=1),
        of(x=(2, 6, 9, 20), w=(40, 6, 3, 3), b=(40,))(),
    ),
    "softmax of classes": (behind(lambda x: x.softmax(1)), of(x=(2, 32, 7, 12), w=(21, 32, 1, 1), b=(21,))()),
    "class": (behind(lambda x: x.argmax(1)), of(x=(2, 32, 5, 9), w=(19, 32, 1, 1), b=(19,))()),
    "logarithms": (behind(lambda x: x.logsumexp(1), stride=2), of(x=(2, 4, 9, 30), w=(72, 4, 3, 3))()),
    "norm": (behind(normed, padding=1), of(x=(2, 5, 6, 17), w=(96, 5, 3, 3), b=(96,))()),
    "two results": (behind(two), of(x=(1, 12, 8, 9), w=(24, 12, 2, 2), b=(24,))()),
    "volume": (behind(lambda x: x.softmax(1)), of(x=(1, 4, 4, 6, 9), w=(16, 4, 3, 3, 2), b=(16,))()),
    "line": (behind(lambda x: x.mean(1)), of(x=(2, 12, 75), w=(40, 12, 5), b=(40,))()),
    "kinds of places": (
        behind(lambda x: x.log_softmax(1), transposed=True, stride=2, padding=1),
        of(x=(2, 12, 5, 6), w=(12, 24, 4, 4), b=(24,))(),
    ),
}


def vector(threads: str, **more: str) -> Vector:
    return tuple(sorted({"block_size": threads, "convolution": "patches", **more}.items()))


@pytest.mark.many(37)
@pytest.mark.parametrize("threads", ["256", "128"])
@pytest.mark.parametrize("name", CASES)
def test_right(name: str, threads: str) -> None:
    call, tensors = CASES[name]
    tensors = {**tensors, "w": 0.25 * tensors["w"]}
    source = generate(problem_of(call, tensors, varying=False), vector(threads)).kernel.source
    assert source.count("__global__") == (2 if "_turned" in source else 1)  # with that of the weights
    check(call, source, tensors, "checked")


@pytest.mark.many(3)
@pytest.mark.parametrize("name", ["softmax of classes", "norm"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_in_no_other_row(name: str, value: float) -> None:
    call, tensors = CASES[name]
    tensors = with_one(tensors, value)
    source = generate(problem_of(call, tensors, varying=False), vector("256")).kernel.source
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.many(7)
@pytest.mark.parametrize(
    ("then", "settings", "channels"),
    [
        (lambda x: x.amin(1), {}, 136),  # of two tiles
        (lambda x: x.amin(1), {"groups": 2}, 32),
        (lambda x: x.softmax(-1), {}, 32),  # along another side
        (lambda x: x.flatten(1).amax(1), {}, 32),
    ],
)
def test_other_rows_are_a_kernel_of_their_own(then: Behind, settings: dict[str, Any], channels: int) -> None:
    reads = 16 // settings.get("groups", 1)
    tensors = of(x=(2, 16, 7, 9), w=(channels, reads, 2, 2), b=(channels,))()
    call = behind(then, **settings)
    source = generate(problem_of(call, tensors, varying=False), vector("256")).kernel.source
    assert source.count("__global__") == 2
    check(call, source, tensors)


@pytest.mark.many(2)
@pytest.mark.parametrize("way", ["patches", "three_tf32", "8x8"])
def test_a_bias_that_stays_with_the_call_is_added(way: str) -> None:
    """The kernel behind it was joined without the bias, so that results were off by that."""
    call = behind(lambda x: torch.relu(x) * 0.5, padding=1)
    tensors = of(x=(2, 16, 8, 12), w=(64, 16, 3, 3), b=(64,))()
    problem = problem_of(call, tensors, varying=False)
    threads = "128" if way == "8x8" else "256"
    asked = settled(problem, vector(threads, convolution=way, bias_in_tail="off"))
    assert dict(asked)["convolution"] == way and dict(asked)["bias_in_tail"] == "off"
    source = generate(problem, asked).kernel.source
    assert source.count("__global__") == 1
    check(call, source, tensors)


def test_what_is_added_to_a_product_is_added_where_a_kernel_behind_joins() -> None:
    def call(t: Tensors) -> Tensor:
        return torch.tanh(torch.addmm(t["c"], t["a"], t["b"]) * 0.1)

    tensors = of(a=(70, 40), b=(40, 66), c=(66,))()
    source = generate(problem_of(call, tensors), (("matrix_product", "three_tf32"),)).kernel.source
    assert source.count("__global__") == 1
    check(call, source, tensors)


def test_what_is_made_in_the_convolutions_kernel_is_nobody_elses_to_decide() -> None:
    call, tensors = CASES["softmax of classes"]
    problem = problem_of(call, tensors, varying=False)
    alone = dict(settled(problem, vector("256", convolution="library")))
    joined = dict(settled(problem, vector("256")))
    of_rows = {"row_cache", "threads_per_row", "block_reduction"}
    assert of_rows & alone.keys() and not of_rows & joined.keys()
