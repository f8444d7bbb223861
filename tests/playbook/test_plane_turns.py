"""Kernels that go plane by plane in one launch: right in any order, offered where planes are apart."""

import re

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.compile.service import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.analysis.plane_turns import LAG_BYTES, planes_of
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.ir.program import Kernel
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of

Tensors = dict[str, Tensor]
IN_TURNS: Vector = (
    ("block_size", "128"), ("bundle_lanes", "8"), ("columns_by", "bundle"), ("grid_split", "on"),
    ("interleaved", "on"), ("launches", "turns"), ("lines_a_thread", "4"), ("split_join", "last"),
    ("stores", "streamed"), ("threads_per_row", "block"), ("vector_width", "4"),
)  # fmt: skip
BARRIERS: Vector = tuple(
    (n, "together" if n == "launches" else v) for n, v in (*IN_TURNS, ("backwards", "on"))
)
ORDERS = (Options(case="races", races=True), Options(case="reverse", reverse=True))


def responses(t: Tensors) -> Tensor:
    """Norms of channels, over the mean of an image's norms."""
    norms = torch.linalg.vector_norm(t["x"], dim=(1, 2), keepdim=True)
    return t["w"] * (t["x"] * (norms / (norms.mean(-1, keepdim=True) + 1e-6))) + t["x"]


def scaled(t: Tensors) -> Tensor:
    """Two kernels: nothing stands between the sums and what is made with them."""
    return t["x"] / (1 + t["x"].abs().sum((1, 2), keepdim=True)) + t["w"]


def across(t: Tensors) -> Tensor:
    """Sums over all images: no image has what it needs when its own are read."""
    return t["x"] / (1 + t["x"].abs().sum((0, 1, 2), keepdim=True)) + t["w"]


def beside(t: Tensors) -> Tensor:
    """Each image by the sums of the one after it."""
    return t["x"] * t["x"].abs().sum((1, 2), keepdim=True).roll(1, 0) + t["w"]


def tensors_of(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(0)
    return {"x": torch.randn(shape).to(dtype), "w": torch.randn(shape[-1]).to(dtype)}


def large(call: Call, *sizes: int, dtype: torch.dtype = torch.float32) -> Problem:
    """A problem whose declared sizes are these."""
    given = tensors_of((20, 9, 8, 64), dtype)
    named = dict(zip(problem_of(call, given).symbols, sizes, strict=True))
    found = problem_of(call, given, cases=(named,))
    return found.model_copy(update={"cases": found.cases[1:]})


@pytest.mark.many(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("call", [responses, scaled])
def test_right_in_any_order(call: Call, dtype: torch.dtype) -> None:
    source = generate(large(call, 32, 90, 60, 64, dtype=dtype), IN_TURNS).kernel.source
    # Planes that are whole bundles; others; long columns that blocks share; one plane; fewer than a bundle.
    for shape in ((600, 9, 8, 64), (3, 9, 8, 40), (2, 90, 3, 64), (1, 9, 8, 64), (3, 2, 2, 24)):
        tensors = tensors_of(shape, dtype)
        plan = plan_of(source, tensors)
        (launch,) = plan.launches
        assert launch.kernel.startswith("op_in_turns") and not launch.cooperative
        built = build(source, plan.instances, "checked")
        for options in ORDERS if shape[0] < 600 else ORDERS[1:]:
            done = execute(plan, built, tensors, options)
            assert not done.report.hazards, done.report.hazards[0].message
            (want,) = reference(call, tensors)
            loose = 4e-3 if dtype == torch.float16 else 1e-4
            assert torch.allclose(done.outputs[0].double(), want, rtol=loose, atol=loose)


def test_a_job_waits_for_those_of_its_plane() -> None:
    """Blocks that begin in order find everything there; that nothing told them so is a hazard."""
    source = generate(large(responses, 32, 90, 60, 64), IN_TURNS).kernel.source
    tensors = tensors_of((3, 9, 8, 64))
    plan = plan_of(source, tensors)
    waits = re.findall(r"wait_for\(&\w+\[plane\]\[\d\], \w+\);", source)
    assert len(waits) == 2
    for left_out in ("", *waits):
        built = build(source.replace(left_out, "", 1), plan.instances, "checked")
        report = execute(plan, built, tensors, ORDERS[0]).report
        assert {hazard.hazard for hazard in report.hazards} == ({"race"} if left_out else set())


def test_a_plane_follows_another_by_a_few() -> None:
    """As many jobs a turn as a plane has, and turns until the last plane's last jobs."""
    source = generate(large(responses, 32, 28, 28, 768), (*IN_TURNS, ("block_size", "512"))).kernel.source
    (launch,) = plan_of(source, {n: t.to("meta") for n, t in tensors_of((32, 28, 28, 768)).items()}).launches
    lag = -(-LAG_BYTES // (4 * 28 * 28 * 768))
    of_plane = 768 // 32 + 1 + 784 // (4 * 2)
    assert launch.grid[0] == of_plane * (32 + lag)


@pytest.mark.parametrize(
    ("call", "in_planes"), [(responses, True), (scaled, True), (across, False), (beside, False)]
)
def test_offered_where_a_plane_needs_nobody_else(call: Call, in_planes: bool) -> None:
    problem = large(call, 32, 90, 60, 64)
    program = program_of(problem, fuse=True)
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    assert (planes_of(program, kernels) is not None) == in_planes
    assert (dict(settled(problem, IN_TURNS)).get("launches") == "turns") == in_planes


def test_nvrtc_takes_it_without_warnings_and_without_a_stack() -> None:
    tensors = tensors_of((20, 9, 8, 64))
    source = generate(problem_of(responses, tensors), IN_TURNS).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport) and not report.warnings
    assert not any(kernel.stack_bytes for kernel in report.kernels)


@pytest.mark.slow
def test_predicted_to_save_the_second_reading_of_planes_that_l2_holds() -> None:
    problem = large(responses, 32, 28, 28, 768)
    wide = (("block_size", "512"),)
    assert predicted_factor(problem, (*BARRIERS, *wide), (*IN_TURNS, *wide), H100) > 1.05
    moved = 4 * 32 * 28 * 28 * 768
    case = problem.cases[0].size_map
    bytes_moved = estimate(problem, (*IN_TURNS, *wide), H100, case).dram_bytes
    assert 2 * moved <= bytes_moved < 2.05 * moved
    assert dict(seed_vectors(problem, H100, 4)[-2].vector or ())["launches"] == "turns"
    # Planes of 31 MB: nothing of the first one is left when its sums are known.
    few = large(responses, 32, 100, 100, 768)
    moved, case = 4 * 32 * 100 * 100 * 768, few.cases[0].size_map
    assert estimate(few, (*IN_TURNS, *wide), H100, case).dram_bytes > 2.5 * moved
