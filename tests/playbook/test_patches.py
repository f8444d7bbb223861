"""Convolutions whose rows are places: right whatever the patch, the block and the way of the weights."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.convolving import ON_TENSOR_CORES, ordinary, with_one
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.model import H100, Vector
from workbench.playbook.analysis.places import flattened, sides_together
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Convolution, Side
from workbench.playbook.ir.sizes import number
from workbench.playbook.kernels.patches_tiling import PatchTiling, patches_tiling
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

Tensors = dict[str, Tensor]
THREADS = ("256", "128")


def patches(threads: str) -> Vector:
    return (("block_size", threads), ("convolution", "patches"))


CASES: dict[str, tuple[Call, Tensors]] = {
    **ON_TENSOR_CORES,
    "plane in vectors": (ordinary(), of(x=(2, 5, 14, 36), w=(16, 5, 3, 3), b=(16,))()),
    "padded by whole vectors": (ordinary(padding=4), of(x=(1, 3, 12, 16), w=(12, 3, 3, 3), b=(12,))()),
    "dilated volume": (
        ordinary(dilation=(2, 1, 3), padding=(1, 2, 0), stride=(1, 2, 1)),
        of(x=(2, 6, 7, 8, 15), w=(33, 6, 3, 3, 2), b=(33,))(),
    ),
    "line in groups": (ordinary(groups=3, padding=1), of(x=(2, 24, 90), w=(63, 8, 3), b=(63,))()),
    "one by one in vectors": (ordinary(), of(x=(2, 36, 7, 12), w=(32, 36, 1, 1), b=(32,))()),
    "taps of one side": (ordinary(padding=(1, 0)), of(x=(2, 16, 9, 12), w=(24, 16, 3, 1), b=(24,))()),
    "taps of the outer two": (
        ordinary(padding=(1, 0, 0)),
        of(x=(2, 9, 6, 5, 8), w=(16, 9, 3, 1, 1), b=(16,))(),
    ),
    "channels of two tiles, in groups": (ordinary(groups=2), of(x=(2, 12, 9, 9), w=(280, 6, 2, 2))()),
    "weights that come again": (ordinary(), of(x=(1, 72, 10, 12), w=(120, 72, 3, 3), b=(120,))()),
}


@pytest.mark.many(37)
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", CASES)
def test_right(name: str, threads: str) -> None:
    """Of small sums: rounding is allowed for by the size of results, and tanh makes ones of large sums."""
    call, tensors = CASES[name]
    tensors = {**tensors, "w": 0.25 * tensors["w"]}
    source = generate(problem_of(call, tensors, varying=False), patches(threads)).kernel.source
    assert "own_place" in source and "library(" not in source
    check(call, source, tensors, "checked")


@pytest.mark.many(2)
@pytest.mark.parametrize(("columns", "together"), [(33, 1), (34, 2), (36, 4)])
def test_rows_of_patches_come_in_vectors_where_they_lie_so(columns: int, together: int) -> None:
    call = ordinary(padding=1)
    tensors = of(x=(2, 4, 9, columns), w=(16, 4, 3, 3), b=(16,))()
    source = generate(problem_of(call, tensors, varying=False), patches("256")).kernel.source
    check(call, source, tensors, "checked")
    (launch,) = plan_of(source, tensors).launches
    assert launch.kernel.endswith(f"<{together}>")


@pytest.mark.many(7)
@pytest.mark.parametrize("name", ["strided", "transposed in groups", "transposed by two"])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_met_by_no_other_result(name: str, value: float) -> None:
    """Zeros of the last piece's missing weights would otherwise make NaN of it."""
    call, tensors = CASES[name]
    tensors = with_one(tensors, value)
    source = generate(problem_of(call, tensors, varying=False), patches("256")).kernel.source
    (got,) = run(source, tensors).outputs
    torch.testing.assert_close(got, call(tensors), rtol=1e-4, atol=1e-4, equal_nan=True)


def test_sums_are_float32s() -> None:
    """One product of TF32 would be wrong in the fourth digit: the other two put it right."""
    call, tensors = CASES["weights that come again"]
    source = generate(problem_of(call, tensors, varying=False), patches("256")).kernel.source
    (got,) = run(source, tensors).outputs
    wide = {name: t.double() for name, t in tensors.items()}
    error = (got.double() - call(wide)).abs().max()  # type: ignore[union-attr]
    assert error < 1e-6 * math.sqrt(72 * 9)


# ------------------------------------------------------------------------------------ tilings


def side(read: int, taps: int, **settings: int) -> Side:
    stride, padding = settings.get("stride", 1), settings.get("padding", 0)
    made = (read + 2 * padding - taps) // stride + 1
    return Side(number(read), number(made), taps, stride, padding, 1)


def convolution(reads: int, makes: int, *sides: Side) -> Convolution:
    """As the playbook finds it in a problem, with other sizes."""
    tensors = of(x=(2, 8, 16, 16), w=(16, 8, 3, 3))()
    (made,) = convolutions_of(ordinary(), tensors)
    return dataclasses.replace(made, read=number(reads), made=number(makes), sides=sides)


def convolutions_of(call: Call, tensors: Tensors) -> tuple[Convolution, ...]:
    return traits_of(problem_of(call, tensors, varying=False)).convolutions


def tiling(threads: int, *given: Any) -> PatchTiling | None:
    return patches_tiling(convolution(*given), threads, [{}])


def test_the_widest_window_leaves_room_for_two_blocks_or_is_not_offered() -> None:
    for window in range(3, 30, 2):
        for threads in (256, 128):
            found = tiling(threads, 16, 32, side(64, window), side(64, window))
            if found is None:
                assert window > 5
                continue
            assert found.shared_bytes * (256 // threads) <= 227 * 1024
            assert found.down * found.across == threads // 32 * 16 * found.twice


def test_weights_that_fit_stay_and_others_come_again() -> None:
    few = tiling(256, 3, 32, side(64, 3), side(64, 3))
    many = tiling(256, 64, 128, side(64, 3), side(64, 3))
    assert few is not None and few.kept
    assert many is not None and not many.kept


def test_more_channels_than_a_tile_has_columns_are_several_tiles_of_as_many() -> None:
    found = tiling(256, 8, 200, side(32, 3), side(32, 3))
    assert found is not None
    assert (found.channel_tiles, found.columns) == (2, 104)


def test_short_rows_share_a_tile() -> None:
    """Eight columns of places are a quarter of a line of 32: the tile is four times as high."""
    found = tiling(256, 8, 64, side(64, 3), side(10, 3))
    assert found is not None and found.across == 8


@pytest.mark.parametrize(
    ("sides", "together"),
    [
        ((side(64, 1), side(64, 1)), [2]),
        ((side(64, 3, padding=1), side(16, 1)), [2]),
        ((side(64, 3, padding=1), side(256, 1)), [1, 1]),  # 512 elements from the first tap to the last
        ((side(64, 1), side(64, 3)), [1, 1]),
        ((side(64, 1), side(64, 1, stride=2)), [1, 1]),
        ((side(9, 3), side(9, 1), side(7, 1)), [1, 2]),  # 126 apart, but planes join rows
        ((side(9, 1), side(9, 1), side(7, 3)), [2, 1]),
    ],
)
def test_sides_with_one_tap_join_those_outside(sides: tuple[Side, ...], together: list[int]) -> None:
    made = convolution(8, 16, *sides)
    assert sides_together(made) == together
    flat = flattened(made)
    assert math.prod(one.made.at({}) for one in flat.sides) == math.prod(one.made.at({}) for one in sides)


# ------------------------------------------------------------------------------------ offers


def test_offered_where_tiles_have_room_and_something_to_do() -> None:
    def offered(reads: int, makes: int, window: int) -> bool:
        tensors = {"x": torch.zeros(4, reads, 40, 40), "w": torch.zeros(makes, reads, window, window)}
        problem = problem_of(ordinary(), tensors, varying=False)
        return dict(settled(problem, patches("256")))["convolution"] == "patches"

    assert offered(3, 8, 3)
    assert not offered(3, 4, 3)  # four channels: half of the columns that tensor cores take at least
    assert not offered(2, 32, 3)  # 18 terms


def test_of_few_channels_and_large_planes_it_is_proposed_first() -> None:
    """As on an H100: docs/notes/2026-11-26-patches.md."""
    tensors = {"x": torch.zeros(16, 16, 256, 256), "w": torch.zeros(64, 16, 3, 3)}
    problem = problem_of(ordinary(), tensors, varying=False)
    vectors = [card.vector or () for card in seed_vectors(problem, H100, 3)]
    best = min(vectors, key=lambda vector: mean_us(problem, vector, H100))
    assert dict(best)["convolution"] == "patches"


def test_a_transposed_one_goes_with_kernels_of_rows_behind_it() -> None:
    """Names of its small kernel are not those of sizes: a row's kernel has ROWS."""
    tensors = of(x=(2, 16, 9, 12), w=(16, 24, 3, 3), b=(24,))()

    def call(t: Tensors) -> Tensor:
        return torch.softmax(F.conv_transpose2d(t["x"], t["w"], t["b"]) * 0.1, dim=-1)

    source = generate(problem_of(call, tensors, varying=False), patches("256")).kernel.source
    assert source.count("__global__") == 3
    check(call, source, tensors)
