"""The grid's own parts that need no GPU: its shapes, and which kernel it decides to measure."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import torch
from test_table import load

from tests.playbook.problems import problem_of
from workbench.model import (
    H100,
    CaseTime,
    Diagnostic,
    Digest,
    Evaluation,
    Kernel,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Problem,
)

LONG, SHORT = (4096, 32768), (4096, 1024)


def softmax() -> Problem:
    x = torch.empty(LONG, device="meta")
    cases = ({"s0": SHORT[0], "s1": SHORT[1]},)
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax", cases=cases)


class Pretended:
    """A device for which a kernel is as fast as a function of its source says."""

    target = H100

    def __init__(self, judge: Any) -> None:
        self.judge = judge
        self.judged: list[str] = []

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: object) -> Evaluation:
        self.judged.append(kernel.source)
        outcome, times_us = self.judge(kernel.source)
        times = [
            CaseTime.model_validate(
                {"case": case.label, "source": "measured", "time_us": time, "floor_us": 1.0}
            )
            for case, time in zip(problem.cases, times_us, strict=True)
        ]
        return Evaluation(
            kernel=Digest("k"), device="cuda", target="H100", outcome=outcome, times=tuple(times)
        )


def found(judge: Any) -> tuple[Kernel | None, Pretended]:
    device = Pretended(judge)
    return asyncio.run(load("grid").Searcher(softmax(), device).run()), device


def test_every_op_has_shapes_and_every_extra_shape_an_op() -> None:
    grid = load("grid")
    assert len(grid.ops()) >= 24
    assert set(grid.MORE_SHAPES) < set(grid.ops())
    assert [case.label for case in grid.problem_of("argmax").cases] == [
        "16384x4096",
        "64x50257",
        "1x1048576",
        "65536x256",
    ]


@pytest.mark.slow
def test_the_fastest_correct_kernel_is_measured_and_no_kernel_is_judged_twice() -> None:
    seen: list[str] = []

    def judge(source: str) -> tuple[Outcome, tuple[float, float]]:
        seen.append(source)
        if len(seen) == 2:
            return Mismatch(case="4096x1024", message="off by one"), (1.0, 1.0)
        return Passed(), (100.0, 10.0) if len(seen) == 3 else (200.0, 20.0)

    kernel, device = found(judge)
    assert kernel is not None and kernel.source == seen[2]
    assert len(set(device.judged)) == len(device.judged) > 5


def of_two_kinds(joined: tuple[float, float]) -> tuple[Kernel | None, Pretended]:
    """Blocks of 1024 are faster for long rows and others for short ones; and what a joined kernel takes."""

    def judge(source: str) -> tuple[Outcome, tuple[float, float]]:
        if "SHAPE_CLASS" in source:
            return Passed(), joined
        return Passed(), (100.0, 20.0) if "block=1024" in source else (200.0, 10.0)

    return found(judge)


def test_two_kernels_are_joined_where_each_is_fastest_at_a_shape() -> None:
    kernel, device = of_two_kinds((101.0, 10.1))
    assert kernel is not None and kernel.source == device.judged[-1], "judged before it is preferred"
    assert "cols" in kernel.source.partition("*/")[0] and "else" in kernel.source.partition("*/")[0]


def test_a_joined_kernel_that_came_out_slower_than_its_parts_is_not_preferred() -> None:
    kernel, device = of_two_kinds((100.0, 50.0))
    assert any("SHAPE_CLASS" in source for source in device.judged)
    assert kernel is not None and "SHAPE_CLASS" not in kernel.source


def test_without_a_correct_kernel_there_is_nothing_to_measure() -> None:
    def judge(source: str) -> tuple[Outcome, tuple[float, float]]:
        return Mismatch(case="4096x1024", message="off by one"), (1.0, 1.0)

    assert found(judge)[0] is None


def test_why_a_kernel_has_no_times_is_told_where_it_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    why = Diagnostic(line=9, message="a cooperative launch of 1536 blocks of 256 threads: at most 528 are")
    refused = LaunchFailed(case="2x3x512x512", diagnostics=(why,))
    grid = load("grid")
    searcher = grid.Searcher(softmax(), Pretended(lambda source: (refused, (1.0, 1.0))))
    asyncio.run(searcher.try_all(grid.seed_vectors(searcher.problem, H100, 1)))
    words = "2x3x512x512: line 9: a cooperative launch of 1536 blocks"
    assert words in capsys.readouterr().out and words in grid._tried(searcher.found[0])["why"]


@pytest.mark.slow
def test_shapes_that_take_long_to_compile_for_are_programs_of_their_own_and_come_first() -> None:
    grid = load("grid")
    programs = grid.baselines(["softmax", "linear_rowsum"], "")
    slow = [name for name in programs if name != "softmax"]
    assert list(programs) == [*slow, "softmax"] and len(slow) == len(grid.problem_of("linear_rowsum").cases)
    assert programs[slow[1]][-3:] == ["linear_rowsum", "--case", slow[1].partition(" ")[2]]
    problem = grid.problem_of("linear_rowsum")
    assert grid.only(problem, "") == problem
    assert [case.label for case in grid.only(problem, problem.cases[1].label).cases] == [
        problem.cases[1].label
    ]


def test_an_op_can_be_asked_for_at_some_of_its_shapes() -> None:
    grid = load("grid")
    labels = [case.label for case in grid.problem_of("silu_mul@3+2").cases]
    assert labels == ["37x1001", "1x14336"]
    with pytest.raises(ValueError, match="shapes 1 to 4"):
        grid.problem_of("silu_mul@5")
    programs = grid.baselines(["linear_rowsum@2", "silu_mul@2+3"], "")
    assert list(programs) == ["linear_rowsum@2 4096x4096,4096x4096", "silu_mul@2+3"]


def test_fewer_shapes_take_less_time(capsys: pytest.CaptureFixture[str]) -> None:
    grid = load("grid")
    assert grid.fits("group_norm@2", 34.0) and not grid.fits("group_norm", 34.0)
    assert "group_norm: no time left" in capsys.readouterr().out


def test_no_text_is_judged_twice() -> None:
    """One row of a million: wherever a row waits, blocks that wait for one another keep it in registers."""
    grid = load("grid")
    x = torch.empty(1, 2**20, device="meta")
    one_row = problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax")
    device = Pretended(lambda source: (Passed(), (1.0,)))
    asyncio.run(grid.Searcher(one_row, device).run())
    assert len(device.judged) == len(set(device.judged)) >= grid.FIRST
