"""Without a card the referee's model tells the ways to make a convolution apart as an H100 does."""

import pytest
import torch

from tests.playbook.convolving import ordinary
from tests.playbook.problems import problem_of
from tests.playbook.running import plan_of, run
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Vector
from workbench.playbook.generate import generate
from workbench.referee.roofline import case_time
from workbench.referee.traffic import Observation

MEASURED = {"8x8": 444.2, "three_tf32": 318.3, "patches": 198.1}
"""64 x 64 x 56 x 56 to 64 channels, 3 x 3, on an H100, in us: receipt 2026-11-26-h100-patches.json."""


@pytest.mark.many(2)
@pytest.mark.parametrize("way", MEASURED)
def test_the_time_of_a_convolution_lies_near_what_was_measured(way: str) -> None:
    call = ordinary(padding=1)
    weights = {"w": torch.randn(64, 64, 3, 3), "b": torch.randn(64)}
    declared = {"x": torch.empty(64, 64, 56, 56), **weights}
    problem = problem_of(call, declared, varying=False)
    threads = "128" if way == "8x8" else "256"
    vector: Vector = (("block_size", threads), ("convolution", way))
    source = generate(problem, vector).kernel.source
    small = {"x": torch.randn(1, 64, 16, 32), **weights}
    seen = generate(problem_of(call, small, varying=False), vector).kernel.source
    report = run(seen, small, "checked").report
    assert report.counts is not None
    plan = plan_of(source, declared)
    compiled = compile_kernel(source, plan.instances)
    assert isinstance(compiled, CompileReport)
    observed = Observation(plan_of(seen, small), report.launches, report.counts.sites)
    time = case_time(H100, problem, problem.cases[0], plan, compiled, [observed])
    assert 0.75 < time.time_us / MEASURED[way] < 1.3
