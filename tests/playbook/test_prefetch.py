"""The next row arrives in shared memory while the present one is computed: right, without hazards."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import CompileReport, Problem, Vector
from workbench.playbook.generate import generate
from workbench.playbook.kernels import row_layers
from workbench.playbook.schedules import fitting
from workbench.playbook.techniques.table import settled

AHEAD: Vector = (
    ("block_size", "1024"),
    ("prefetch", "on"),
    ("row_cache", "registers"),
    ("vector_width", "4"),
)


def softmax(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.softmax(t["x"], 1)


def added_norm(t: dict[str, torch.Tensor]) -> torch.Tensor:
    total = t["x"] + t["residual"]
    return torch.nn.functional.layer_norm(total.float(), (total.shape[1],)).to(total.dtype)


def tensors(call: Call, rows: int, columns: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    names = ("x",) if call is softmax else ("x", "residual")
    return {name: torch.randn(rows, columns).to(dtype) for name in names}


def opened(call: Call, dtype: torch.dtype) -> Problem:
    cases = ({"s0": 5000, "s1": 4096}, {"s0": 5000, "s1": 4096 if call is added_norm else 8192})
    return problem_of(call, tensors(call, 3, 5, dtype), "op", cases=cases)


@pytest.fixture
def short_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy pays for long rows only; short ones are quicker on the emulator."""
    for module in (fitting, row_layers):
        monkeypatch.setattr(module, "prefetch_from", lambda shape: 4)


@pytest.mark.many(11)
@pytest.mark.usefixtures("short_rows_too")
@pytest.mark.parametrize(
    ("call", "rows", "columns", "dtype", "width"),
    [
        (softmax, 1200, 132, torch.float32, "4"),
        (softmax, 1057, 7, torch.float32, "4"),
        (softmax, 2, 1028, torch.float32, "2"),
        (softmax, 1060, 21, torch.float32, "1"),
        (softmax, 1060, 40, torch.float16, "8"),
        (softmax, 1060, 33, torch.bfloat16, "8"),
        (added_norm, 1060, 72, torch.float32, "4"),
        (added_norm, 1060, 33, torch.float16, "4"),
    ],
)
def test_right_and_without_hazards(
    call: Call, rows: int, columns: int, dtype: torch.dtype, width: str
) -> None:
    vector = (*AHEAD[1:-1], ("block_size", "128"), ("vector_width", width))
    given = tensors(call, rows, columns, dtype)
    source = generate(opened(call, dtype), vector).kernel.source
    (launch,) = plan_of(source, given).launches
    assert launch.grid[0] == min(rows, 132 * 8)
    assert launch.shared_bytes == columns * dtype.itemsize * len(given)
    check(call, source, given, "checked")
    plan = plan_of(source, given)
    races = Options(case="test", races=True)
    assert not execute(plan, build(source, plan.instances, "checked"), given, races).report.hazards


def test_only_rows_that_fill_a_multiprocessor_are_copied_ahead() -> None:
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "op", cases=({"s0": 4096, "s1": 32768},))
    source = generate(problem, (*AHEAD[1:], ("block_size", "fit"))).kernel.source
    given = {"x": torch.randn(135, 16388)}
    assert [launch.kernel for launch in plan_of(source, given).launches] == ["op_ahead<4>"]
    check(softmax, source, given)
    short = plan_of(source, {"x": torch.empty(5000, 16384, device="meta")})
    assert [launch.kernel for launch in short.launches] == ["op<4>"]


def test_one_block_of_a_thousand_threads_stays_on_every_multiprocessor() -> None:
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "softmax", cases=({"s0": 4096, "s1": 32768},))
    source = generate(problem, (*AHEAD[1:], ("block_size", "fit"))).kernel.source
    plan = plan_of(source, {"x": torch.empty(4096, 32768, device="meta")})
    (launch,) = plan.launches
    assert (launch.grid[0], launch.block[0], launch.shared_bytes) == (132, 1024, 131072)
    report = compile_kernel(source, plan.instances)
    assert isinstance(report, CompileReport)
    assert report.kernels[0].spill_store_bytes == 0 and report.kernels[0].registers <= 64


def test_offered_only_where_a_row_waits_in_the_registers_of_a_block() -> None:
    problem = problem_of(softmax, {"x": torch.randn(3, 5)}, "op", cases=({"s0": 4096, "s1": 32768},))
    assert dict(settled(problem, AHEAD))["prefetch"] == "on"
    assert "prefetch" not in dict(settled(problem, (*AHEAD[:2], ("row_cache", "shared"))))
    assert "prefetch" not in dict(settled(opened(softmax, torch.float32), AHEAD))
