"""benchmarks/vectors.py --steps: what each step of a plan takes, beside what was expected of it."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import vectors
from grid import problem_of

from workbench.model import Problem, StepTime
from workbench.playbook.rules.moves import parse_vector

CALLED = parse_vector("convolution=library")


@cache
def sample() -> Problem:
    """Opened by the first test: each process of a run imports this file, one runs it."""
    return problem_of("conv_bias_relu_pool")


def told(steps: list[tuple[str, float]]) -> list[str]:
    """Lines of a plan whose steps took so long."""
    times = [StepTime(step=name, kind="kernel", line=1, time_us=us) for name, us in steps]
    time = SimpleNamespace(case=sample().cases[0].label, measured=SimpleNamespace(steps=times))
    return list(vectors.step_lines(sample(), CALLED, time))  # type: ignore[arg-type]


def test_steps_stand_beside_what_was_expected_of_them() -> None:
    call, copied, kernel = told([("aten.convolution", 900.0), ("aten.contiguous", 7.0), ("Model<4>", 300.0)])
    assert call.split()[0] == "900.0" and float(call.split()[1]) > 500
    assert "expected" not in copied
    assert kernel.split()[0] == "300.0" and float(kernel.split()[1]) < 500


def test_where_steps_are_missing_both_lists_are_told() -> None:
    only, expected = told([("Model<4>", 300.0)])
    assert "expected" not in only and expected.startswith("2 steps were expected: ")


def test_weights_that_are_laid_out_are_counted_with_their_convolution() -> None:
    laid_out, *others = told([("Model_weights", 2.0), ("Model<4>", 300.0), ("Model_2<4>", 30.0)])
    assert "expected" not in laid_out and all("expected" in line for line in others)


def test_a_step_that_is_only_called_so_is_a_step() -> None:
    assert "expected" in told([("Model_weights_of<4>", 2.0), ("Model<4>", 300.0)])[0]
