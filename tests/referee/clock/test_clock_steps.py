"""Times of a plan's steps on a fake device: cut at marks, gaps left out, nothing told of a bad trace."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fake_lane import FakeLane, ones

from workbench.errors import GpuError
from workbench.model import StepTime
from workbench.referee.clock import measure as measuring
from workbench.referee.clock.lane import LostRecords, Record
from workbench.referee.clock.measure import Setting, measure
from workbench.referee.clock.options import INTERACTIVE
from workbench.referee.clock.steps import cut, step_times_us

OPTIONS = INTERACTIVE.model_copy(update={"resamples": 100})
STEPS = (
    StepTime(step="aten.mm", kind="library", line=4, time_us=0.0),
    StepTime(step="tail<4>", kind="kernel", line=5, time_us=0.0),
)


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> FakeLane:
    made = FakeLane()
    monkeypatch.setattr(measuring, "lane_of", lambda options: made)
    monkeypatch.setattr(measuring, "open_trace", lambda: (made, ""))
    monkeypatch.setattr(measuring, "host_us", lambda act: 2.0)
    monkeypatch.setattr(measuring, "pci_bus_id", lambda: "")
    return made


def two_steps(lane: FakeLane, first_us: float, second_us: float, kernels: int = 1) -> Any:
    def marked(mark: Any) -> Any:
        def call() -> None:
            lane.work(first_us, kernels)
            mark()
            lane.work(second_us)
            mark()

        return call

    return marked


def test_a_step_is_what_its_kernels_take_without_the_gaps() -> None:
    records = [
        Record(1, 900, "open"),
        Record(1000, 3000, "work"),
        Record(9000, 9500, "work"),
        Record(9600, 9700, "step"),
        Record(9800, 9900, "step"),
        Record(10000, 14000, "work"),
        Record(14100, 14200, "step"),
        Record(14300, 14400, "close"),
        Record(20000, 90000, "work"),
    ]
    assert cut(reversed(records)) == [2.5, 0.0, 4.0]  # the second one started nothing


def test_kernels_side_by_side_count_once() -> None:
    records = [
        Record(1, 900, "open"),
        Record(1000, 3000, "work"),
        Record(1500, 2500, "work"),
        Record(2000, 4000, "work"),
        Record(4100, 4200, "step"),
        Record(4300, 4400, "close"),
    ]
    assert cut(records) == [3.0]


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (["open", "work", "close"], "no steps"),
        (["open", "work", "step", "work", "close"], "behind its last step"),
        (["work", "step"], "no beginning"),
        (["open", "work", "step"], "no end"),
    ],
)
def test_a_trace_without_its_marks_is_not_used(roles: Any, said: str) -> None:
    records = [Record(10 * i + 1, 10 * i + 5, role) for i, role in enumerate(roles)]
    with pytest.raises(LostRecords, match=said):
        cut(records)


def test_steps_are_medians_of_a_few_cold_calls(lane: FakeLane) -> None:
    assert step_times_us(lane, lane, two_steps(lane, 30.0, 12.0, kernels=3), 2) == pytest.approx((30.0, 12.0))


def kernel(lane: FakeLane) -> Any:
    def call(rotation: int) -> Any:
        lane.work(42.0, kernels=2)
        return ones(rotation)

    return call


def test_a_timing_tells_the_steps_of_the_plan(lane: FakeLane) -> None:
    setting = Setting(check=lambda outputs: "", steps=STEPS, marked=two_steps(lane, 30.0, 12.0))
    found = measure("8", kernel(lane), {}, OPTIONS, setting).measured
    assert [(step.step, step.time_us) for step in found.steps] == [("aten.mm", 30.0), ("tail<4>", 12.0)]
    assert found.library_share == pytest.approx(30 / 42)


def test_a_plan_of_one_step_has_no_steps(lane: FakeLane) -> None:
    marked = two_steps(lane, 30.0, 12.0)
    alone = Setting(check=lambda outputs: "", steps=STEPS[:1], marked=marked)
    found = measure("8", kernel(lane), {}, OPTIONS, alone).measured
    assert found.steps == () and found.library_share is None


def failing(error: Exception) -> Any:
    def marked(mark: Any) -> Any:
        def call() -> None:
            raise error

        return call

    return marked


def with_one_mark(lane: FakeLane) -> Any:
    def marked(mark: Any) -> Any:
        def call() -> None:
            lane.work(42.0)
            mark()

        return call

    return marked


@pytest.mark.parametrize("what", ["no marks", "one mark", "refused", "memory"])
def test_a_look_that_fails_costs_no_time_that_was_had(lane: FakeLane, what: str) -> None:
    ways = {
        "no marks": lambda mark: lambda: lane.work(42.0),
        "one mark": with_one_mark(lane),
        "refused": failing(GpuError("the driver refused")),
        "memory": failing(torch.OutOfMemoryError("CUDA out of memory")),
    }
    lost = Setting(check=lambda outputs: "", steps=STEPS, marked=ways[what])
    timing = measure("8", kernel(lane), {}, OPTIONS, lost)
    assert timing.measured.steps == () and timing.time_us > 40
    assert any("steps of the plan were not timed" in why for _, why in timing.measured.missing)
