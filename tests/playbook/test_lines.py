"""Threads at one place of several lines: right at awkward sizes, what lines share read once; backwards."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]
LINES: Vector = (
    ("block_size", "64"), ("bundle_lanes", "8"), ("columns_by", "bundle"), ("grid_split", "on"),
    ("interleaved", "on"), ("lines_a_thread", "4"), ("single_pass", "on"), ("split_join", "last"),
    ("vector_width", "4"),
)  # fmt: skip
BACK: Vector = (*LINES, ("backwards", "on"))


def last(tensor: Tensor) -> Tensor:
    return tensor.to(memory_format=torch.channels_last)


def grouped(t: Tensors) -> Tensor:
    return F.silu(F.group_norm(t["x"], 4, t["weight"], t["bias"]))


def batched(t: Tensors) -> Tensor:
    return F.relu(F.batch_norm(t["x"], None, None, t["weight"], t["bias"], training=True))


def row_major(t: Tensors) -> Tensor:
    return batched(t).contiguous()


def single(t: Tensors) -> Tensor:
    return F.leaky_relu(F.instance_norm(t["x"]), 0.2)


def standardized(t: Tensors) -> Tensor:
    return (t["x"] - t["x"].mean(0)) / (t["x"].std(0) + 1e-6)


def scaled(t: Tensors) -> Tensor:
    return t["x"] * t["weight"] + t["bias"]


def image(batch: int, channels: int, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(3)
    x = last(torch.randn(batch, channels, height, width).to(dtype))
    return {"x": x, "weight": torch.randn(channels).to(dtype), "bias": torch.randn(channels).to(dtype)}


def columns(rows: int, count: int) -> Tensors:
    torch.manual_seed(3)
    return {"x": torch.randn(rows, count), "weight": torch.randn(count), "bias": torch.randn(count)}


CASES: dict[str, tuple[Call, Tensors]] = {
    "groups that straddle vectors": (grouped, image(2, 40, 9, 11)),
    "whole groups": (grouped, image(3, 64, 12, 8)),
    "float16": (grouped, image(2, 40, 9, 11, torch.float16)),
    "a batch": (batched, image(3, 48, 20, 21)),
    "columns": (standardized, {"x": columns(1133, 36)["x"]}),
    "a line of nothing but weights": (scaled, columns(37, 20)),
}


@pytest.mark.many(23)
@pytest.mark.parametrize("vector", [LINES, (*LINES, ("stream_hints", "on"), ("lines_a_thread", "8"))])
@pytest.mark.parametrize("name", CASES)
def test_right_at_awkward_sizes(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    source = generate(problem_of(call, tensors, varying=False), vector).kernel.source
    assert "int line = first + item * GROUPS" in source
    check(call, source, tensors, "checked")


LARGE = {name: torch.empty_like(one) for name, one in image(1, 64, 1, 1).items()}
LARGE["x"] = last(torch.empty(16, 64, 128, 128))
TURNED: Vector = (*BACK, ("index_width", "32"), ("turned_tile", "32"))


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("call", "vector", "apart"),
    [
        (grouped, BACK, True),
        (batched, BACK, False),
        (batched, (*BACK, ("lines_a_thread", "off")), False),
        (single, TURNED, True),
        (row_major, TURNED, False),
    ],
)
def test_backwards_in_any_order_of_blocks_and_without_races(call: Call, vector: Vector, apart: bool) -> None:
    """Planes with statistics of their own were walked side by side: L2 has the end of each."""
    large = {"x": LARGE["x"]} if call is single else LARGE
    source = generate(problem_of(call, large), vector).kernel.source
    orders = ("All planes side by side" in source, "From the last block" in source)
    assert orders == (apart, not apart)
    tensors = {name: one for name, one in image(3, 36, 19, 21).items() if name in large}
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    (want,) = reference(call, tensors)
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert torch.allclose(done.outputs[0].double(), want.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_kernel_for_any_size_works_where_lines_are_odd_or_long() -> None:
    call, tensors = CASES["whole groups"]
    source = generate(problem_of(call, tensors), LINES).kernel.source
    for other in (image(1, 12, 5, 7), image(2, 260, 3, 5), image(1, 1032, 2, 3)):
        check(call, source, other, "checked")


def test_what_lines_share_is_found_before_them() -> None:
    call, tensors = CASES["groups that straddle vectors"]
    source = generate(problem_of(call, tensors, varying=False), LINES).kernel.source
    body = source[source.index("int line = first + item * GROUPS") :]
    assert "weight + at" in source and "weight" not in body.split("for (int k")[0]
    assert "% CHANNELS" not in body and "/ COLS" not in body, "no element is divided for"


@pytest.mark.parametrize(
    ("call", "tensors", "offered"),
    [
        (batched, image(5, 64, 16, 16), True),
        (batched, image(5, 65, 16, 16), False),  # no whole vectors
        (batched, {name: one.contiguous() for name, one in image(5, 64, 16, 16).items()}, False),
        (scaled, columns(64, 4096), False),  # longer than a block
        (scaled, columns(64, 36 * 4), False),  # 36 of 64 threads at work
    ],
)
def test_offered_where_lines_are_short_and_whole(call: Call, tensors: Tensors, offered: bool) -> None:
    vector = settled(problem_of(call, tensors, varying=False), LINES)
    assert (dict(vector).get("lines_a_thread") == "4") == offered


def test_a_pass_goes_backwards_where_l2_has_a_part_of_what_was_read() -> None:
    large = {"x": torch.empty(65536, 256)}
    assert dict(settled(problem_of(standardized, large, varying=False), BACK)).get("backwards") == "on"
    few = {"x": torch.empty(8192, 256)}
    assert "backwards" not in dict(settled(problem_of(standardized, few, varying=False), BACK))
    once = {**columns(4, 256), "x": torch.empty(65536, 256)}
    assert "backwards" not in dict(settled(problem_of(scaled, once, varying=False), BACK))


def test_lines_and_their_end_first_are_predicted_to_pay() -> None:
    tensors = {name: torch.empty_like(one) for name, one in image(2, 320, 4, 4, torch.float16).items()}
    tensors["x"] = last(torch.empty(8, 320, 64, 64).half())
    call: Call = lambda t: F.silu(F.group_norm(t["x"], 32, t["weight"], t["bias"]))  # noqa: E731
    problem = problem_of(call, tensors, varying=False)
    apart = (*LINES, ("block_size", "256"), ("lines_a_thread", "off"), ("vector_width", "8"))
    assert predicted_factor(problem, apart, (*apart, ("lines_a_thread", "4")), H100) > 1.2
    columns_ = problem_of(standardized, {"x": torch.empty(65536, 256)}, varying=False)
    assert predicted_factor(columns_, LINES, BACK, H100) > 1.03
