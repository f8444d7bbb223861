"""Convolutions that a kernel makes itself: right at odd sizes, with what follows them in the same kernel."""

from __future__ import annotations

import math
import re

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.convolving import ON_TENSOR_CORES, ordinary, shared, transposed, two_results
from tests.playbook.drawn_convolutions import drawn_convolution
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.model import H100, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled

TENSOR_CORES: Vector = (("convolution", "three_tf32"),)
DIRECT: Vector = (("block_size", "128"), ("convolution", "8x8"))
OTHERS: tuple[Vector, ...] = (
    (("block_size", "64"), ("convolution", "8x4")),
    (("block_size", "256"), ("convolution", "4x8")),
    (("block_size", "128"), ("convolution", "16x4")),
)


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "plane": (ordinary(), of(x=(2, 3, 11, 37), w=(10, 3, 3, 3), b=(10,))()),
    "padded": (ordinary(padding=(2, 1)), of(x=(2, 3, 9, 14), w=(16, 3, 5, 3), b=(16,))()),
    "strided": (ordinary(stride=(2, 3), padding=1), of(x=(1, 5, 20, 31), w=(9, 5, 3, 3), b=(9,))()),
    "dilated": (ordinary(dilation=(2, 3)), of(x=(1, 4, 14, 21), w=(8, 4, 3, 3), b=(8,))()),
    "in groups": (ordinary(groups=2, padding=1), of(x=(2, 12, 7, 9), w=(10, 6, 3, 3), b=(10,))()),
    "many channels": (ordinary(), of(x=(1, 19, 6, 7), w=(70, 19, 2, 2), b=(70,))()),
    "one by one": (ordinary(), of(x=(2, 18, 5, 9), w=(20, 18, 1, 1), b=(20,))()),
    "volume": (ordinary(padding=1), of(x=(2, 3, 5, 6, 9), w=(9, 3, 3, 3, 3), b=(9,))()),
    "strided volume": (
        ordinary(stride=2, dilation=(2, 1, 1)),
        of(x=(1, 9, 8, 7, 9), w=(6, 9, 2, 3, 3), b=(6,))(),
    ),
    "without a bias": (ordinary(), of(x=(2, 6, 11, 10), w=(8, 6, 3, 3))()),
    "transposed": (transposed(), of(x=(2, 5, 7, 9), w=(5, 9, 3, 3), b=(9,))()),
    "transposed by two": (
        transposed(stride=2, padding=1, output_padding=1),
        of(x=(2, 6, 9, 35), w=(6, 10, 3, 3), b=(10,))(),
    ),
    "transposed by 1 and 3": (
        transposed(stride=(1, 3), padding=(0, 2)),
        of(x=(1, 4, 6, 8), w=(4, 9, 2, 5), b=(9,))(),
    ),
    "transposed by 3 and 1": (transposed(stride=(3, 1)), of(x=(1, 4, 6, 8), w=(4, 6, 4, 2), b=(6,))()),
    "transposed, apart": (transposed(stride=3), of(x=(1, 4, 4, 5), w=(4, 6, 2, 2), b=(6,))()),
    "transposed in groups": (
        transposed(stride=2, groups=2),
        of(x=(1, 8, 4, 5), w=(8, 5, 4, 4), b=(10,))(),
    ),
    "transposed volume": (
        transposed(stride=2, padding=1, output_padding=1),
        of(x=(1, 9, 3, 4, 5), w=(9, 6, 3, 3, 3), b=(6,))(),
    ),
    "transposed and dilated": (
        transposed(stride=(2, 3), dilation=(2, 1), padding=(1, 2)),
        of(x=(2, 6, 5, 9), w=(6, 9, 3, 5), b=(9,))(),
    ),
    "transposed, gaps larger than steps": (
        transposed(stride=(1, 2), dilation=(3, 3), padding=1),
        of(x=(1, 4, 6, 8), w=(4, 9, 3, 2), b=(9,))(),
    ),
    "transposed and dilated volume": (
        transposed(stride=(3, 2, 2), dilation=(2, 2, 3), padding=1),
        of(x=(1, 5, 4, 5, 6), w=(5, 9, 3, 3, 2), b=(9,))(),
    ),
    "line": (ordinary(), of(x=(2, 5, 301), w=(9, 5, 3), b=(9,))()),
    "strided line": (ordinary(stride=2, dilation=3, padding=4), of(x=(3, 6, 75), w=(20, 6, 4), b=(20,))()),
    "line in groups": (ordinary(groups=3, padding=1), of(x=(2, 9, 40), w=(21, 3, 3), b=(21,))()),
    "transposed line": (
        transposed(stride=2, padding=1, output_padding=1),
        of(x=(2, 5, 150), w=(5, 9, 5), b=(9,))(),
    ),
    "transposed line, dilated": (
        transposed(stride=3, padding=2, dilation=2),
        of(x=(1, 6, 37), w=(6, 40, 3), b=(40,))(),
    ),
    "two results": (two_results, of(x=(2, 5, 9, 11), w=(9, 5, 3, 3), b=(9,), r=(2, 9, 9, 11))()),
    "results wanted twice": (shared, of(x=(2, 5, 9, 11), w=(9, 5, 3, 3))()),
}


@pytest.mark.many(41)
@pytest.mark.parametrize("name", CALLS)
def test_right_at_odd_sizes(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "convolved")
    source = generate(problem, DIRECT).kernel.source
    assert "done directly" in source and "library(" not in source
    check(call, source, tensors, "checked")


SHARED = {"plane": "2", "in groups": "2", "many channels": "2", "volume": "3", "transposed": "2"}
"""Blocks that share the terms of a tile."""


@pytest.mark.many(5)
@pytest.mark.parametrize("name", SHARED)
def test_the_blocks_of_a_cluster_share_the_terms_of_a_convolution(name: str) -> None:
    call, tensors = ON_TENSOR_CORES[name]
    problem = problem_of(call, tensors, "convolved")
    source = generate(problem, (*TENSOR_CORES, ("split_k", SHARED[name]))).kernel.source
    check(call, source, tensors, mode="checked")


@pytest.mark.many(19)
@pytest.mark.parametrize("name", ON_TENSOR_CORES)
def test_right_on_tensor_cores(name: str) -> None:
    call, tensors = ON_TENSOR_CORES[name]
    source = generate(problem_of(call, tensors, "convolved"), TENSOR_CORES).kernel.source
    assert "multiply_add(sums" in source and "library(" not in source
    check(call, source, tensors, "checked")


@pytest.mark.many(5)
@pytest.mark.parametrize("name", ["plane", "transposed in groups", "transposed by two, three taps"])
def test_an_infinity_among_a_convolutions_elements_is_met_by_no_other_result(name: str) -> None:
    call, tensors = ON_TENSOR_CORES[name]
    tensors = {**tensors, "x": tensors["x"].clone()}
    tensors["x"][1, 3, 4, 5] = math.inf
    source = generate(problem_of(call, tensors, "convolved"), TENSOR_CORES).kernel.source
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.many(9)
@pytest.mark.parametrize("vector", OTHERS)
@pytest.mark.parametrize("name", ["many channels", "transposed by two", "volume"])
def test_right_with_other_tiles(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors, "convolved"), vector).kernel.source
    check(call, source, tensors, "checked")


def test_steps_so_wide_that_a_thread_has_room_for_few_channels() -> None:
    call, tensors = transposed(stride=5, dilation=2, padding=1), of(x=(1, 4, 4, 6), w=(4, 9, 3, 3))()
    problem = problem_of(call, tensors, "convolved")
    assert "library(" in generate(problem, DIRECT).kernel.source
    source = generate(problem, OTHERS[1]).kernel.source
    assert "done directly" in source
    check(call, source, tensors, "checked")


def test_what_follows_is_done_in_the_same_kernel() -> None:
    call, tensors = CALLS["two results"]
    source = generate(problem_of(call, tensors), DIRECT).kernel.source
    assert len(plan_of(source, tensors).launches) == 1
    call, tensors = CALLS["results wanted twice"]
    source = generate(problem_of(call, tensors), DIRECT).kernel.source
    assert len(plan_of(source, tensors).launches) == 2


def test_what_is_not_covered_stays_with_the_library() -> None:
    half = of(x=((2, 5, 9, 11), torch.float16), w=((9, 5, 3, 3), torch.float16))()
    large = of(x=(1, 4, 20, 20), w=(4, 4, 13, 13))()
    calls: list[tuple[Call, dict[str, Tensor]]] = [
        (lambda t: torch.relu(F.conv2d(t["x"], t["w"])), half),
        (lambda t: torch.relu(F.conv2d(t["x"], t["w"])), large),
    ]
    for call, tensors in calls:
        problem = problem_of(call, tensors)
        assert "convolution" not in dict(settled(problem, DIRECT))
        assert "library(" in generate(problem, DIRECT).kernel.source


def made_of(reads: int, makes: int, side: int, images: int = 8, window: int = 3, **settings: int) -> Problem:
    """Made in the test, as other processes only collect it."""
    weights = (reads, makes, window, window) if settings else (makes, reads, window, window)
    tensors = {"x": torch.zeros(images, reads, side, side), "w": torch.zeros(weights)}
    call = transposed(**settings) if settings else ordinary()
    return problem_of(call, tensors, varying=False)


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("sizes", "settings", "chosen"),
    [
        ((3, 32, 128), {}, "kernel"),
        ((8, 64, 128), {}, "kernel"),
        ((64, 64, 32), {"stride": 2}, "kernel"),
        ((256, 256, 30), {}, "kernel"),
        ((64, 128, 32, 512, 5), {"padding": 1}, "library"),
    ],
    ids=["few channels", "some channels", "transposed", "many channels", "transposed, by FFT"],
)
def test_a_kernel_is_proposed_where_the_library_is_slow(
    sizes: tuple[int, ...], settings: dict[str, int], chosen: str
) -> None:
    """As on an H100: docs/notes/2026-11-25-convolutions.md, 2026-11-26-products-of-matrices.md."""
    problem = made_of(*sizes, **settings)
    best = min(
        (card.vector or () for card in seed_vectors(problem, H100, 3)), key=lambda v: us_of(problem, v)
    )
    assert (dict(best)["convolution"] == "library") == (chosen == "library")


def us_of(problem: Problem, vector: Vector) -> float:
    return mean_us(problem, vector, H100)


def test_a_tile_wastes_no_half_of_a_plane() -> None:
    """36 places are a tile of 32 and a little: warps take shorter lines of more rows there."""
    call, tensors = ordinary(), of(x=(1, 4, 38, 38), w=(32, 4, 3, 3))()
    source = generate(problem_of(call, tensors), DIRECT).kernel.source
    found = re.search(r"TALL = (\d+), WIDE = (\d+),", source)
    assert found is not None
    (launch,) = plan_of(source, tensors).launches
    assert launch.grid[0] * int(found[1]) * int(found[2]) < 1.35 * 36 * 36


def right_as_drawn(seed: int) -> None:
    call, tensors, vector = drawn_convolution(seed)
    source = generate(problem_of(call, tensors, "drawn"), vector).kernel.source
    assert "done directly" in source
    check(call, source, tensors, "checked")


@pytest.mark.many(9)
@pytest.mark.parametrize("seed", range(6))
def test_right_as_drawn(seed: int) -> None:
    right_as_drawn(seed)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(6, 300))
def test_right_as_drawn_in_a_sweep(seed: int) -> None:
    right_as_drawn(seed)
