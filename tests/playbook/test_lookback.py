"""Scans by decoupled look-back: right in any order of threads, offered where rows are few and long."""

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

ON: Vector = (("look_back", "on"), ("vector_width", "4"))
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))
CALLS: dict[str, tuple[Call, torch.dtype]] = {
    "sum": (lambda t: t["x"].cumsum(1), torch.float32),
    "exclusive_half": (lambda t: t["x"].cumsum(1) - t["x"], torch.float16),
    "back": (lambda t: t["x"].flip(1).cumsum(1).flip(1), torch.float32),
    "largest": (lambda t: t["x"].cummax(1).values, torch.bfloat16),
    "logarithm": (lambda t: t["x"].logcumsumexp(1), torch.float32),
    "whole_numbers": (lambda t: (t["x"] > 0).cumsum(1), torch.float32),
    "starts": (
        lambda t: torch.where(t["x"] > 0.1, torch.arange(t["x"].shape[1]), 0).cummax(1).values,
        torch.float32,
    ),
    "double": (lambda t: t["x"].cumsum(1), torch.float64),
}


def rows(columns: int, dtype: torch.dtype) -> dict[str, Tensor]:
    torch.manual_seed(columns)
    return {"x": (torch.randn(2, columns) / 8).to(dtype)}


@pytest.mark.parametrize("name", CALLS)
def test_right_whoever_comes_first(name: str) -> None:
    call, dtype = CALLS[name]
    source = generate(problem_of(call, rows(9000, dtype)), ON).kernel.source
    for columns in (9000, 4101):  # whole vectors, and a ragged last tile
        tensors = rows(columns, dtype)
        plan = plan_of(source, tensors)
        assert plan.launches[0].grid[0] >= 4, "several tiles a row"
        built = build(source, plan.instances, "checked")
        for options in TURNS:
            done = execute(plan, built, tensors, options)
            assert not done.report.hazards, done.report.hazards[0].message
            assert not done.report.kept, "what the tiles told is forgotten"
            want = reference(call, tensors)[0]
            assert torch.allclose(done.outputs[0].double(), want.double(), rtol=4e-3, atol=2e-4)


@pytest.mark.parametrize("parts", ["4", "8", "16"])
def test_more_tiles_than_are_looked_at_at_once(parts: str) -> None:
    tensors = {"x": torch.randn(1, 70 * 64 * 4 * int(parts) + 4) / 8}
    vector: Vector = (*ON, ("block_size", "64"), ("scan_tile", parts))
    call = CALLS["sum"][0]
    source = generate(problem_of(call, tensors), vector).kernel.source
    plan = plan_of(source, tensors)
    assert plan.launches[0].grid[0] == 71, "a window has 64 tiles"
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert not done.report.kept
        torch.testing.assert_close(
            done.outputs[0], tensors["x"].double().cumsum(1).float(), rtol=1e-4, atol=1e-3
        )


@pytest.mark.parametrize("name", CALLS)
def test_compiles_for_the_gpu(name: str) -> None:
    call, dtype = CALLS[name]
    tensors = rows(9000, dtype)
    source = generate(problem_of(call, tensors), ON).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport), report
    assert not report.warnings


@pytest.mark.parametrize(
    ("call", "shape", "offered"),
    [
        (lambda t: t["x"].cumsum(1), (1, 2**20), True),
        (lambda t: t["x"].cumsum(1), (2**16, 16), False),
        (lambda t: t["x"].cumsum(1), (2**13, 2**12), False),
        (lambda t: t["x"].cumsum(0), (2**12, 2**10), False),
        (lambda t: t["x"].cummax(1).indices, (1, 2**20), False),
        (lambda t: t["x"].softmax(1), (1, 2**20), False),
    ],
)
def test_offered_where_rows_are_few_and_long(call: Call, shape: tuple[int, ...], offered: bool) -> None:
    problem = problem_of(call, {"x": torch.empty(shape)}, varying=False)
    assert (dict(settled(problem, ON)).get("look_back") == "on") == offered


def test_predicted_to_pay_for_one_long_row() -> None:
    problem = problem_of(lambda t: t["x"].cumsum(1), {"x": torch.empty(1, 2**20)}, varying=False)
    assert predicted_factor(problem, (("vector_width", "4"),), ON, H100) > 10


pytestmark = pytest.mark.sweep
