"""Blocks that wait for one another and keep a part of their pieces: the rest is read again after it."""

import pytest
import torch
import torch.nn.functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import metas_of, plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.kernels.together_kernel import held_of, most_in_part, most_of_a_piece
from workbench.referee.occupancy import not_together

SMALL = H100.model_copy(update={"sm_count": 2})
"""A card on which pieces are as long as on an H100 where rows are sixty-six times shorter."""
VECTOR: Vector = (
    ("block_size", "64"), ("grid_split", "on"), ("single_pass", "on"), ("split_join", "grid"),
    ("vector_width", "4"),
)  # fmt: skip
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))


def group_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return F.group_norm(t["x"], 2, t["w"], t["b"])


def softmax(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return t["x"].softmax(1)


def centred_and_scaled(t: dict[str, torch.Tensor]) -> torch.Tensor:
    centred = t["x"] - t["x"].mean(1, keepdim=True)
    return centred / (centred.abs().amax(1, keepdim=True) + 1.0)


def of_channels(batch: int, channels: int, height: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    shapes = {"x": (batch, channels, height), "w": (channels,), "b": (channels,)}
    return {name: torch.randn(shape, device=device) for name, shape in shapes.items()}


def of_rows(rows: int, columns: int, device: str = "cpu") -> dict[str, torch.Tensor]:
    return {"x": torch.randn(rows, columns, device=device)}


CASES: dict[str, tuple[Call, dict[str, torch.Tensor], dict[str, torch.Tensor]]] = {
    "group_norm": (group_norm, of_channels(1, 64, 98304, "meta"), of_channels(1, 6, 16384)),
    "odd": (softmax, of_rows(3, 2112001, "meta"), of_rows(3, 31001)),
    "two_barriers": (centred_and_scaled, of_rows(2, 3244032, "meta"), of_rows(2, 49152)),
}


def on_a_small_card(source: str, tensors: dict[str, torch.Tensor]) -> Plan:
    return interpret(parse(source), metas_of(tensors), SMALL)


@pytest.mark.many(6)
@pytest.mark.parametrize("join", ["grid", "words"])
@pytest.mark.parametrize("name", CASES)
def test_right_in_any_order(name: str, join: str) -> None:
    call, declared, tensors = CASES[name]
    vector = tuple({**dict(VECTOR), "split_join": join}.items())
    source = generate(problem_of(call, declared), vector).kernel.source
    assert "the rest is read again from L2" in source
    plan = on_a_small_card(source, tensors)
    (launch,) = plan.launches
    assert launch.cooperative and launch.grid[1] > 1
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-5)


def groups(height: int = 16384) -> Problem:
    """32 rows of a megabyte: more than the registers of all multiprocessors, less than L2."""
    tensors = of_channels(1, 512, height, "meta")
    return problem_of(lambda t: F.group_norm(t["x"], 32, t["w"], t["b"]), tensors, varying=False)


@pytest.mark.parametrize("threads", [256, 1024])
def test_an_h100_runs_all_its_blocks_at_once_and_nothing_is_spilled(threads: int) -> None:
    vector = tuple({**dict(VECTOR), "block_size": str(threads)}.items())
    source = generate(groups(), vector).kernel.source
    plan = plan_of(source, of_channels(1, 512, 16384, "meta"))
    (launch,) = plan.launches
    assert launch.grid[0] * launch.grid[1] > 120 * 1024 // threads
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport) and not_together(H100, plan, report) is None
    assert report.kernels[0].registers <= 64 and report.kernels[0].spill_store_bytes == 0


def test_where_all_of_a_piece_fits_nothing_is_read_again() -> None:
    source = generate(groups(4096), VECTOR).kernel.source
    assert "cooperative=True" in source and "read again from L2" not in source


def test_pieces_too_long_for_registers_and_l2_take_the_launches_of_before() -> None:
    source = generate(groups(4 * 16384), VECTOR).kernel.source
    assert "cooperative=True" not in source
    assert held_of(64, 1) < most_of_a_piece(64, 1) < most_in_part(64, 1)


def test_the_model_prefers_one_launch_and_knows_what_is_read_again() -> None:
    apart: Vector = (("grid_split", "on"), ("single_pass", "on"), ("vector_width", "4"))
    joined: Vector = (*apart, ("split_join", "grid"))
    problem = groups()
    assert predicted_factor(problem, apart, joined, H100) > 1.1
    found = estimate(problem, joined, H100, problem.cases[0].size_map)
    assert found.launches == 1 and found.us > 23, "no faster than its bytes"
    assert found.dram_bytes < 1.05 * 2 * 4 * 512 * 16384, "memory is read once"
