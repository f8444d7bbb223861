"""Convolutions of 16-bit numbers on tensor cores: sums in float32, rounded once at the end."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook import test_channels_behind, test_pooled
from tests.playbook.convolving import ordinary, transposed, with_one
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, reference, run
from tests.playbook.test_patches import CASES, THREADS, convolutions_of, patches
from workbench.model import H100
from workbench.playbook.generate import generate
from workbench.playbook.kernels.patches_tiling import pairable, patches_tiling
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.rules.seeds import mean_us
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]
HALF_A_PLACE = {torch.bfloat16: 2**-8, torch.float16: 2**-11}
"""Half of a last place is so much of a value at most."""
BEHIND: dict[str, tuple[Call, Tensors]] = {
    **{f"pool: {name}": test_pooled.CASES[name] for name in ("plane", "many channels", "line")},
    **{
        f"channels: {name}": test_channels_behind.CASES[name]
        for name in ("softmax of classes", "class", "norm", "kinds of places")
    },
}


def in_16_bits(tensors: Tensors, dtype: torch.dtype) -> Tensors:
    return {name: (0.25 * t if name == "w" else t).to(dtype) for name, t in tensors.items()}


def source_of(call: Call, tensors: Tensors, threads: str, pairs: str = "off") -> str:
    vector = (*patches(threads), ("channel_pairs", pairs))
    return generate(problem_of(call, tensors, varying=False), vector).kernel.source


def rounded_once(got: Tensor, want: Tensor) -> None:
    """Off by half of a last place, and by what float32's sums of values as large are off by."""
    allowed = HALF_A_PLACE[got.dtype] * want.abs() + 1e-5 * want.abs().mean() + 2**-25
    assert ((got.double() - want).abs() <= allowed).all()


@pytest.mark.many(61)
@pytest.mark.parametrize("pairs", ["off", "on"])
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", HALF_A_PLACE)
@pytest.mark.parametrize("name", [name for name in CASES if name != "results wanted twice"])
def test_right(name: str, dtype: torch.dtype, threads: str, pairs: str) -> None:
    call, tensors = CASES[name]
    tensors = in_16_bits(tensors, dtype)
    source = source_of(call, tensors, threads, pairs)
    assert "own_place" in source and "library(" not in source
    if pairs == "on":
        (made,) = convolutions_of(call, tensors)
        assert ("side_by_side" in source) == pairable(made)
    execution = run(source, tensors, "checked")
    assert not execution.report.hazards
    for got, want in zip(execution.outputs, reference(call, tensors), strict=True):
        assert got.dtype == dtype
        rounded_once(got, want)


@pytest.mark.many(17)
@pytest.mark.parametrize("dtype", HALF_A_PLACE)
@pytest.mark.parametrize("pairs", ["off", "on"])
@pytest.mark.parametrize("name", BEHIND)
def test_what_is_behind_is_made_of_float32(name: str, pairs: str, dtype: torch.dtype) -> None:
    """A pool's largest, or a softmax, of results that are not rounded before."""
    call, tensors = BEHIND[name]
    tensors = in_16_bits(tensors, dtype)
    source = source_of(call, tensors, "256", pairs)
    of_weights = "kinds" in name or "side_by_side" in source
    assert source.count("__global__") == (2 if of_weights else 1)
    (got,) = check(call, source, tensors, "checked").outputs
    (want,) = reference(call, tensors)
    if got.is_floating_point():
        error = (got.double() - want).abs()
        assert (error <= 1.01 * HALF_A_PLACE[dtype] * want.abs() + 1e-5).all()


@pytest.mark.many(2)
@pytest.mark.parametrize(("columns", "together"), [(33, 1), (36, 4), (40, 8)])
def test_rows_of_patches_come_in_vectors_where_they_lie_so(columns: int, together: int) -> None:
    call = ordinary(padding=1)
    tensors = in_16_bits(of(x=(2, 8, 9, columns), w=(16, 8, 3, 3), b=(16,))(), torch.bfloat16)
    for pairs in ("off", "on"):
        source = source_of(call, tensors, "256", pairs)
        check(call, source, tensors, "checked")
        *_, launch = plan_of(source, tensors).launches
        assert launch.kernel.endswith(f"<{together}>")


@pytest.mark.many(2)
@pytest.mark.parametrize(("reads", "together"), [(64, "VEC"), (12, "(VEC < 4 ? VEC : 4)"), (7, "1")])
def test_weights_come_in_vectors_that_divide_a_channels(reads: int, together: str) -> None:
    call = ordinary(padding=1)
    tensors = in_16_bits(of(x=(1, reads, 6, 16), w=(24, reads, 3, 3), b=(24,))(), torch.bfloat16)
    source = source_of(call, tensors, "128")
    assert f"copy_or_zero<{together}>(to + place" in source
    check(call, source, tensors, "checked")


@pytest.mark.parametrize(("reads", "short"), [(3, True), (7, False), (8, True), (64, False)])
def test_of_a_last_piece_a_part_without_terms_is_left_out(reads: int, short: bool) -> None:
    """27, 63, 72 and 576 terms, of which 64 are a piece."""
    tensors = in_16_bits(of(x=(1, reads, 8, 16), w=(16, reads, 3, 3), b=(16,))(), torch.bfloat16)
    (made,) = convolutions_of(ordinary(), tensors)
    found = patches_tiling(made, 256, [{}])
    assert found is not None and found.is_short == short
    assert ("HALVES_OF_LAST" in source_of(ordinary(), tensors, "256")) == short


@pytest.mark.many(2)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_met_by_no_other_result(value: float) -> None:
    """Zeros of the last piece's missing weights would otherwise make NaN of it."""
    for name, pairs in (("strided", "off"), ("transposed by two", "off"), ("transposed in groups", "on")):
        call, tensors = CASES[name]
        tensors = with_one(in_16_bits(tensors, torch.bfloat16), value)
        (got,) = run(source_of(call, tensors, "256", pairs), tensors).outputs
        (want,) = reference(call, tensors)
        assert torch.equal(torch.isnan(got), torch.isnan(want))
        torch.testing.assert_close(got.double(), want, rtol=2**-7, atol=1e-3, equal_nan=True)


def test_all_weights_of_few_channels_stay_and_others_come_again() -> None:
    tensors = in_16_bits(of(x=(1, 64, 8, 16), w=(64, 64, 3, 3))(), torch.bfloat16)
    (few,) = convolutions_of(ordinary(), tensors)
    tensors = in_16_bits(of(x=(1, 160, 8, 16), w=(128, 160, 3, 3))(), torch.bfloat16)
    (many,) = convolutions_of(ordinary(), tensors)
    kept, others = patches_tiling(few, 256, [{}]), patches_tiling(many, 256, [{}])
    assert kept is not None and kept.kept and kept.twice == 2
    assert others is not None and not others.kept and others.twice == 2


def test_some_blocks_share_a_multiprocessor_where_there_is_room() -> None:
    counts = []
    for reads, makes in ((8, 32), (64, 64), (160, 128)):
        tensors = in_16_bits(of(x=(1, reads, 64, 64), w=(makes, reads, 3, 3))(), torch.float16)
        (made,) = convolutions_of(ordinary(), tensors)
        found = patches_tiling(made, 128, [{}])
        assert found is not None and found.shared_bytes * found.blocks <= 227 * 1024
        counts.append(found.blocks)
    assert counts == [4, 3, 2]


def test_weights_that_are_cast_before_are_as_good() -> None:
    """As a module in float32 has them, of which one call is in 16 bits."""

    def call(t: Tensors) -> Tensor:
        return torch.relu(F.conv2d(t["x"], t["w"].to(t["x"].dtype), padding=1))

    tensors = of(x=((1, 8, 9, 16), torch.bfloat16), w=(16, 8, 3, 3))()
    source = source_of(call, tensors, "256")
    assert "own_place" in source
    rounded = {**tensors, "w": tensors["w"].to(torch.bfloat16)}
    rounded_once(run(source, tensors, "checked").outputs[0], reference(call, rounded)[0])


def test_it_is_proposed_first_where_it_was_faster_and_last_where_not() -> None:
    """As on an H100: 132 us where the library and a kernel take 427, and 394 where they take 195."""

    def first(call: Call, x: tuple[int, ...], w: tuple[int, ...]) -> str:
        tensors = {"x": torch.zeros(x, dtype=torch.bfloat16), "w": torch.zeros(w, dtype=torch.bfloat16)}
        problem = problem_of(call, tensors, varying=False)
        vectors = [card.vector or () for card in seed_vectors(problem, H100, 3)]
        return dict(min(vectors, key=lambda vector: mean_us(problem, vector, H100)))["convolution"]

    assert first(ordinary(padding=1), (64, 16, 128, 128), (64, 16, 3, 3)) == "patches"
    assert first(transposed(stride=2, padding=1), (32, 64, 64, 64), (64, 64, 4, 4)) == "library"


def test_pairs_are_offered_where_channels_are_even_and_nowhere_else() -> None:
    def offered(reads: int, dtype: torch.dtype) -> str | None:
        tensors = {name: t.to(dtype) for name, t in of(x=(1, reads, 9, 16), w=(16, reads, 3, 3))().items()}
        asked = (*patches("256"), ("channel_pairs", "on"))
        return dict(settled(problem_of(ordinary(), tensors, varying=False), asked)).get("channel_pairs")

    assert offered(8, torch.bfloat16) == "on"
    assert offered(7, torch.bfloat16) is None
    assert offered(8, torch.float32) is None


def test_ways_that_multiply_float32_are_not_offered() -> None:
    tensors = in_16_bits(of(x=(4, 64, 32, 32), w=(64, 64, 3, 3))(), torch.bfloat16)
    problem = problem_of(ordinary(), tensors, varying=False)
    for way in ("8x8", "three_tf32"):
        assert dict(settled(problem, (("convolution", way),)))["convolution"] == "library"
