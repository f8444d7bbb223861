"""Threads that walk down planes that lie side by side: windows over channels-last images, on the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from tests.playbook.test_layouts import _order
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.rules.moves import moves, seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, traits_of

half, bf16 = torch.float16, torch.bfloat16


def conv(groups: int, **how: Any) -> Callable[[dict[str, Tensor]], Tensor]:
    return lambda t: F.conv2d(t["x"], t["w"], groups=groups, **how)


def images(**tensors: Any) -> dict[str, Tensor]:
    """Channels-last images under the name of x and y; weights and all else as they are."""
    made = of(**tensors)()
    return {n: t.to(memory_format=torch.channels_last) if n in "xy" else t for n, t in made.items()}


def few_values(shape: tuple[int, ...]) -> Tensor:
    """Whole numbers, of which many are equal, and some that are none."""
    torch.manual_seed(1)
    x = torch.randint(-3, 4, shape).float()
    x.view(-1)[::13] = torch.nan
    x.view(-1)[::7] = -torch.inf
    return x.to(memory_format=torch.channels_last)


def mobile_block(t: dict[str, Tensor]) -> Tensor:
    """A depthwise convolution, a batch norm of what it has learnt, and a residual."""
    made = F.conv2d(t["x"], t["w"], t["b"], padding=1, groups=8)
    return F.relu(F.batch_norm(made, t["m"], t["v"], t["s"], t["o"])) + t["x"]


def both_pools(t: dict[str, Tensor]) -> Tensor:
    return F.max_pool2d(t["x"], 3, 1, 1) - F.avg_pool2d(t["x"], 5, 1, 2)


NORM = {"m": (8,), "v": torch.rand(8) + 0.5, "s": (8,), "o": (8,)}
CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "block": (mobile_block, images(x=(2, 8, 7, 9), w=(8, 1, 3, 3), b=(8,), **NORM)),
    "whole vectors": (conv(16, padding=3), images(x=(2, 16, 12, 8), w=(16, 1, 7, 7))),
    "half of a vector": (conv(12, padding=1), images(x=((2, 12, 10, 7), half), w=((12, 1, 3, 3), half))),
    "no vectors": (conv(7, padding=2), images(x=(2, 7, 9, 10), w=(7, 1, 5, 5))),
    "no border": (conv(8), images(x=(2, 8, 9, 12), w=(8, 1, 3, 5))),
    "narrower than the window": (conv(4, padding=3), images(x=(2, 4, 4, 3), w=(4, 1, 7, 7))),
    "one row": (conv(4, padding=(2, 1)), images(x=(2, 4, 1, 8), w=(4, 1, 5, 3))),
    "one column": (conv(4, padding=1), images(x=(3, 4, 6, 1), w=(4, 1, 3, 3))),
    "one image": (conv(40, padding=1), images(x=((1, 40, 5, 5), half), w=((40, 1, 3, 3), half))),
    "wide border": (conv(2, padding=(4, 2)), images(x=(1, 2, 6, 8), w=(2, 1, 5, 3))),
    "apart": (
        conv(4, stride=(2, 1), padding=(2, 3), dilation=(1, 3)),
        images(x=(1, 4, 15, 17), w=(4, 1, 5, 3)),
    ),
    "dilated down": (conv(4, padding=2, dilation=(2, 1)), images(x=(1, 4, 12, 16), w=(4, 1, 3, 3))),
    "strides": (conv(8, stride=2, padding=1), images(x=((2, 8, 17, 16), half), w=((8, 1, 3, 3), half))),
    "long strides": (conv(2, stride=3, padding=3), images(x=(2, 2, 20, 21), w=(2, 1, 7, 7))),
    "two results a channel": (conv(4, padding=1), images(x=(2, 4, 10, 9), w=(8, 1, 3, 3))),
    "bfloat16": (conv(8, padding=2), images(x=((2, 8, 11, 10), bf16), w=((8, 1, 5, 5), bf16))),
    "double": (conv(4, padding=1), images(x=((2, 4, 6, 8), torch.float64), w=((4, 1, 3, 3), torch.float64))),
    "computed": (
        lambda t: F.conv2d(F.relu(t["x"]) + 1, t["w"], padding=1, groups=4),
        images(x=(2, 4, 9, 12), w=(4, 1, 3, 3)),
    ),
    "a part of the channels": (
        lambda t: F.conv2d(t["x"][:, 1:], t["w"], padding=1, groups=4),
        images(x=(2, 5, 9, 6), w=(4, 1, 3, 3)),
    ),
    "a place behind": (
        lambda t: F.conv2d(t["x"].permute(0, 3, 1, 2), t["w"], padding=1, groups=6),
        of(x=(2, 9, 10, 6), w=(6, 1, 3, 3))(),
    ),
    "pools": (both_pools, images(x=(2, 4, 12, 13))),
    "largest": (lambda t: F.max_pool2d(t["x"], 3, 2, 1), {"x": few_values((2, 4, 15, 16))}),
    "largest, unlike strides": (
        lambda t: F.max_pool2d(t["x"], (5, 3), 2, 1),
        {"x": few_values((2, 3, 15, 16))},
    ),
    "padding left out": (
        lambda t: F.avg_pool2d(t["x"], 3, 1, 1, count_include_pad=False),
        images(x=(2, 8, 10, 11)),
    ),
}
VECTORS: tuple[Vector, ...] = (
    (("vector_width", "4"), ("walk_down", "2")),
    (("index_width", "32"), ("vector_width", "2"), ("walk_down", "1"), ("walk_rows", "8")),
    (
        ("index_width", "32"),
        ("loads_in_flight", "2"),
        ("stores", "streamed"),
        ("vector_width", "8"),
        ("walk_down", "2"),
    ),
    (("loads_in_flight", "4"), ("vector_width", "1"), ("walk_down", "4"), ("walk_rows", "8")),
    (("block_size", "64"), ("reciprocal", "on"), ("vector_width", "4"), ("walk_down", "1")),
)


@pytest.mark.many(41)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_right_at_awkward_shapes(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "windows")
    assert traits_of(problem).beside
    source = generate(problem, vector).kernel.source
    assert "Planes lie side by side" in source
    execution = check(call, source, tensors, "checked")
    assert _order(execution.outputs[0]) == _order(call(tensors))


def test_what_is_not_a_number_stays_in_its_windows() -> None:
    call, tensors = CALLS["whole vectors"]
    x = tensors["x"].clone()
    x[0, 0, 0, 0], x[0, 5, 9, 7], x[1, 15, 11, 7] = torch.nan, torch.inf, -torch.inf
    tensors = {**tensors, "x": x}
    check(call, generate(problem_of(call, tensors), VECTORS[0]).kernel.source, tensors, "checked")


def test_a_corner_that_all_of_a_plane_share_is_read_within_the_plane() -> None:
    """Its window reaches beyond the border: the elements there have places before the tensor's first."""

    def call(t: dict[str, Tensor]) -> Tensor:
        mean = F.avg_pool2d(t["x"], 3, 1, 1)
        return mean - mean[:, :, :1, :1]

    tensors = images(x=(2, 16, 6, 7))
    problem = problem_of(call, tensors, "windows", varying=False)
    source = generate(problem, VECTORS[0]).kernel.source
    shared = source.partition("// What all results of a plane share")[2].partition("#pragma")[0]
    assert shared and "load<VEC>" not in shared  # a vector is asked for whatever the borders say
    check(call, source, tensors, "checked")


@pytest.mark.many(8)
@pytest.mark.parametrize(("padding", "width"), crossed(range(5), (7, 8)))
def test_every_padding(padding: int, width: int) -> None:
    """Windows that reach beyond either side, up to those that lie outside but for one row."""
    call = conv(4, padding=padding)
    tensors = images(x=(1, 4, 9, width), w=(4, 1, 5, 5))
    source = generate(problem_of(call, tensors, "windows"), VECTORS[0]).kernel.source
    check(call, source, tensors, "checked")


def test_pieces_begin_with_rows_of_the_piece_above() -> None:
    """Planes of 40 rows in pieces of 14, 14 and 12, of 4 vectors of planes and 5 columns in twos."""
    call = conv(16, padding=2)
    tensors = images(x=(2, 16, 40, 5), w=(16, 1, 5, 5))
    vector = (("block_size", "64"), ("vector_width", "4"), ("walk_down", "2"), ("walk_rows", "16"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    (launch,) = plan_of(source, tensors).launches
    assert launch.grid == (-(-2 * 3 * 3 * 4 // 64), 1, 1)
    check(call, source, tensors, "checked")


@pytest.mark.many(8)
@pytest.mark.parametrize(("channels", "width"), [(16, "8"), (12, "4"), (6, "1")])
def test_vectors_are_as_wide_as_planes_allow(channels: int, width: str) -> None:
    tensors = images(x=((1, channels, 6, 5), half), w=((channels, 1, 3, 3), half))
    call = conv(channels, padding=1)
    source = generate(problem_of(call, tensors), (("vector_width", "8"), ("walk_down", "1"))).kernel.source
    ((name, _),) = plan_of(source, tensors).instances
    assert name.removesuffix(">").partition("<")[2] in (width, "") and (width == "1" or width in name)
    check(call, source, tensors, "checked")


def requests(name: str, vector: Vector) -> int:
    """Of all warps."""
    call, tensors = CALLS[name]
    counts = run(generate(problem_of(call, tensors), vector).kernel.source, tensors, "checked").report.counts
    assert counts is not None
    return sum(int(site.requests) for site in counts.sites)


def test_rows_are_read_once_and_weights_with_their_neighbours() -> None:
    """Against a thread a result: fewer requests by the height of a window, and by the width of a vector."""
    flat = requests("one image", (("vector_width", "1"), ("walk_down", "off")))
    walks = requests("one image", (("vector_width", "1"), ("walk_down", "1")))
    vectors = requests("one image", (("vector_width", "8"), ("walk_down", "1")))
    assert flat > 1.5 * walks and walks > 4 * vectors
    source = generate(problem_of(*CALLS["one image"]), VECTORS[2]).kernel.source
    assert "load_run<VEC, 9>(w + plane * 9)" in source and "load_word<VEC>(x" in source


def test_a_residual_is_read_in_vectors() -> None:
    source = generate(problem_of(*CALLS["block"]), VECTORS[0]).kernel.source
    assert "x_pack[k] = load<VEC>(x + i + k * 8);" in source and "store(out + i + k * 8" in source


def test_a_norm_and_an_activation_behind_are_the_same_launch() -> None:
    call, tensors = CALLS["block"]
    problem = problem_of(call, tensors)
    assert traits_of(problem).kernels == 1 and not traits_of(problem).library_calls
    source = generate(problem, VECTORS[0]).kernel.source
    assert len(plan_of(source, tensors).launches) == 1
    # What the norm is made of differs by plane alone: once a thread, not once a result.
    assert source.index("inverse[c] = ") < source.index("const auto take")


def test_strips_are_for_planes_that_lie_apart() -> None:
    problem = problem_of(*CALLS["whole vectors"])
    assert traits_of(problem).strips == 0 and "strip" not in dict(settled(problem, (("strip", "4"),)))
    walking = dict(settled(problem, (("vector_width", "4"), ("walk_down", "2"))))
    assert walking["walk_down"] == "2" and walking["vector_width"] == "4"
    upright = {n: t.contiguous() for n, t in CALLS["whole vectors"][1].items()}
    apart = problem_of(CALLS["whole vectors"][0], upright)
    assert "vector_width" not in dict(settled(apart, (("vector_width", "4"), ("walk_down", "2"))))
    assert not traits_of(apart).beside and traits_of(apart).walks


def test_results_in_another_order_keep_their_windows() -> None:
    """The windows are those of channels-last results: their axes before the channels."""
    program = program_of(problem_of(*CALLS["largest, unlike strides"]), fuse=True)
    (kernel,) = (step for step in program.steps if isinstance(step, Kernel))
    found = cut_of(kernel, program.stencils)
    assert found is not None and found.is_beside
    (stencil,) = found.stencils
    assert stencil.behind == 1 and (stencil.down.count, stencil.along.count) == (5, 3)


def test_the_number_of_results_a_channel_is_fixed() -> None:
    """Else neighbouring results would not be known to read neighbouring channels."""
    problem = problem_of(*CALLS["one image"])
    assert problem.tensors[1].dims == (40, 1, 3, 3)


def test_the_model_and_the_seeds_walk() -> None:
    call, tensors = conv(24, padding=1), images(x=((2, 24, 9, 9), half), w=((24, 1, 3, 3), half))
    problem = problem_of(call, tensors, cases=({"s0": 256, "s1": 56, "s2": 56},))
    problem = problem.model_copy(update={"cases": problem.cases[1:]})
    sizes = problem.cases[0].size_map
    walks = (("loads_in_flight", "2"), ("vector_width", "4"), ("walk_down", "2"), ("walk_rows", "16"))
    flat = (("vector_width", "1"), ("walk_down", "off"))
    found = [
        estimate(problem, settled(problem, (("index_width", "32"), *vector)), H100, sizes).us
        for vector in (walks, flat)
    ]
    assert found[1] > 2 * found[0]
    seeds = [dict(card.vector or ()) for card in seed_vectors(problem, H100, 6)]
    assert any(seed.get("walk_down", "off") != "off" and seed.get("vector_width") == "4" for seed in seeds)
    proposed = moves(problem, settled(problem, (("vector_width", "4"),)), None, H100)
    assert proposed[0].technique == "walk_down"


NOT_WALKED: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "volume": (
        lambda t: F.max_pool3d(t["v"], 3, 1, 1),
        {"v": of(v=(1, 4, 5, 6, 7))()["v"].to(memory_format=torch.channels_last_3d)},
    ),
    "one axis": (
        lambda t: F.conv1d(t["x"].transpose(1, 2), t["w"], padding=1, groups=4).transpose(1, 2),
        of(x=(2, 9, 4), w=(4, 1, 3))(),
    ),
    "windows side by side": (lambda t: F.avg_pool2d(t["x"], 2), images(x=(2, 4, 6, 8))),
}


@pytest.mark.many(8)
@pytest.mark.parametrize("name", NOT_WALKED)
def test_what_is_not_walked(name: str) -> None:
    call, tensors = NOT_WALKED[name]
    problem = problem_of(call, tensors, "windows")
    assert not traits_of(problem).beside and "walk_down" not in dict(settled(problem, VECTORS[0]))
    source = generate(problem, (*VECTORS[0], ("strip", "4"))).kernel.source
    check(call, source, tensors, "checked")


def test_kernels_that_share_a_launch() -> None:
    call = lambda t: (conv(8, padding=1)(t), F.max_pool2d(t["x"], 3, 1, 1) * 2)  # noqa: E731
    tensors = images(x=(2, 8, 10, 12), w=(8, 1, 3, 3))
    vector = (("launches", "beside"), ("vector_width", "4"), ("walk_down", "2"))
    check(call, generate(problem_of(call, tensors), vector).kernel.source, tensors, "checked")


@pytest.mark.many(8)
@pytest.mark.parametrize(
    ("name", "vector"), crossed(["block", "pools", "two results a channel", "bfloat16"], VECTORS[:3])
)
def test_nvrtc_takes_them(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    source = generate(problem_of(call, tensors, "windows"), vector).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport) and not report.warnings
    # Eight planes of 5 x 5 windows have 200 weights.
    narrow = dict(vector)["vector_width"] != "8"
    assert not narrow or all(not kernel.spill_store_bytes for kernel in report.kernels)
