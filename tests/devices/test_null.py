from __future__ import annotations

import asyncio

import pytest
from softmax_problem import PROBLEM

from workbench.devices.null import NullDevice
from workbench.errors import DeviceError
from workbench.model import CompileFailed, Evaluation, Kernel


def said(source: str) -> Evaluation:
    return asyncio.run(NullDevice().evaluate(PROBLEM, Kernel(source=source), lambda stage: None))


WORDS = ("passed", "launch_failed", "crashed", "timed_out", "mismatch", "hazard", "suspect", "compile_failed")


@pytest.mark.parametrize("word", WORDS)
def test_the_first_comment_decides(word: str) -> None:
    evaluation = said(f"\n// null: {word}\n__global__ void k() {{}}\n")
    assert evaluation.outcome.kind == word
    assert bool(evaluation.times) == (word == "passed")


def test_a_time_makes_the_score() -> None:
    assert said("// null: passed 25").score == pytest.approx(4.0)


@pytest.mark.parametrize(
    "source", ["", "__global__ void k() {}", "// null:", "// null: passed soon", "// null: fine"]
)
def test_anything_else_does_not_compile_and_says_how(source: str) -> None:
    outcome = said(source).outcome
    assert isinstance(outcome, CompileFailed)
    assert "// null: passed 12.5" in outcome.diagnostics[0].message


def test_a_broken_machine_raises() -> None:
    with pytest.raises(DeviceError):
        said("// null: broken")
