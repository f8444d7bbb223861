"""The figures' own parts that need no GPU."""

from __future__ import annotations

import torch
from test_table import load

from workbench.model import H100, Kernel, Rival, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse


def test_rates_are_counted_and_a_budget_is_kept() -> None:
    figures = load("clock_figures")

    def run(turn: int) -> tuple[Rival, dict[str, float]]:
        word = "SAME" if turn % 2 else "AMBIGUOUS"
        return Rival(name="x", time_us=1, ratio=1.0, low=0.99, high=1.01, verdict=word, blocks=10), {}

    found = figures.verdicts("itself", "SAME", run, runs=10)
    assert (found["runs"], found["found"], found["words"]) == (10, 5, {"AMBIGUOUS": 5, "SAME": 5})
    assert figures.verdicts("itself", "SAME", run, runs=10, budget_s=0.0)["runs"] == 1


def test_the_copy_kernel_has_a_plan_and_covers_every_element() -> None:
    figures = load("clock_figures")
    meta = TensorMeta(dtype="f32", shape=(4096 + 4,), strides=(1,))
    plan = interpret(parse(Kernel(source=figures.COPY).source), {"x": meta}, H100)
    (launch,) = plan.launches
    assert launch.grid[0] * launch.block[0] * 4 >= 4100
    from workbench.emulator.build import build
    from workbench.emulator.execute import execute

    x = torch.randn(4100)
    (y,) = execute(plan, build(figures.COPY, plan.instances, "checked"), {"x": x}).outputs
    assert torch.equal(x, y)
