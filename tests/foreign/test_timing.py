"""Timed calls of a foreign solution, with the host's clock in the place of a GPU's."""

from __future__ import annotations

import pytest
import suite
import torch
from softmax_problem import PROBLEM as SOFTMAX

from workbench.foreign.judge import judge_solution
from workbench.foreign.stopwatch import HostStopwatch, vary
from workbench.foreign.values import ForeignOptions, ForeignReport
from workbench.model import Case, Mismatch, Passed
from workbench.views.foreign_judgement import time_line

PROBLEM = SOFTMAX.model_copy(
    update={"cases": (Case(label="40x64", sizes=(("s0", 40), ("s1", 64)), origin="declared"),)}
)
PLAIN = """
import torch

class ModelNew(torch.nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return {body}
"""
OPTIONS = ForeignOptions(calls=10, timing="any", replay=7)


def report(body: str, options: ForeignOptions = OPTIONS) -> ForeignReport:
    return judge_solution(PROBLEM, PLAIN.format(body=body), options).report


def test_a_right_solution_is_timed_against_eager_and_its_outputs_are_compared() -> None:
    found = report("torch.softmax(x, dim=1)")
    assert isinstance(found.outcome, Passed), found.outcome
    assert len(found.times) == len(PROBLEM.cases)
    for time in found.times:
        assert time.clock == "host" and time.samples >= 20 and time.checked >= 2
        assert [rival.name for rival in time.rivals] == ["eager"]
        assert "timed calls compared" in time_line(time) and "x eager" in time_line(time)


def test_one_that_stops_working_once_it_is_timed_is_caught() -> None:
    checked = report("torch.softmax(x, dim=1)", OPTIONS.model_copy(update={"timing": "no"}))
    calls = 2 * checked.calls  # beyond every call of the checks, profile included
    found = report(f"torch.softmax(x, dim=1) if self.calls < {calls} else torch.zeros_like(x)")
    assert isinstance(found.outcome, Mismatch) and "in a timed call" in found.outcome.message


def test_without_timing_there_is_no_time() -> None:
    assert report("torch.softmax(x, dim=1)", OPTIONS.model_copy(update={"timing": "gpu"})).times == ()


def test_contents_are_new_the_same_for_the_same_seed_and_leave_the_version_counter() -> None:
    base = torch.tensor([[0.0, 1.0, float("inf")], [-2.0, 3.0, 0.5]])
    first, second, third = torch.empty_like(base), torch.empty_like(base), torch.empty_like(base)
    version = first._version
    vary(first, base, 1)
    assert first._version == version
    vary(second, base, 1)
    vary(third, base, 2)
    assert torch.equal(first, second) and not torch.equal(first, third)
    assert first[0, 0] == 0 and torch.isinf(first[0, 2])
    finite = torch.isfinite(base) & (base != 0)
    assert bool(((first / base)[finite] - 1).abs().max() <= 0.125)


def test_integers_are_written_as_they_are() -> None:
    base = torch.arange(6).reshape(2, 3)
    place = torch.zeros_like(base)
    vary(place, base, 1)
    assert torch.equal(place, base)


def test_a_stopwatch_prepares_before_it_calls() -> None:
    order: list[str] = []
    reading = HostStopwatch().once(
        lambda attempt: order.append(f"prepared {attempt}"), lambda: order.append("called"), 0
    )
    assert order == ["prepared 0", "called"] and reading.time_us >= 0


@pytest.mark.parametrize("entry", [e for e in suite.entries(("on_gpu",)) if e.timed], ids=lambda e: e.name)
def test_what_is_timed_on_a_gpu_is_large_enough(entry: suite.Entry) -> None:
    assert entry.problem == "large_softmax"
