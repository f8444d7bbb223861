"""Few rows of gigabytes: their statistics have a kernel of their own, their elements another."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import _compare, plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Problem, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

Tensors = dict[str, torch.Tensor]
APART: Vector = (("grid_split", "on"), ("joint_rows", "off"), ("split_join", "last"), ("vector_width", "4"))


def scaled(t: Tensors) -> torch.Tensor:
    return t["x"] / t["x"].norm()


def normalised(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    x = t["x"]
    return F.layer_norm(x, x.shape[1:], t["w"]), x.amax((1, 2))


def chosen(t: Tensors) -> torch.Tensor:
    """The row's mean is looked at under a condition."""
    return torch.where(t["x"] > 0, t["x"], t["x"].mean(1, keepdim=True))


CALLS: dict[str, tuple[Call, Tensors, dict[str, int]]] = {
    "scaled": (scaled, {"x": torch.randn(40, 37)}, {"s0": 2**15, "s1": 2**15}),
    "normalised": (
        normalised,
        {"x": torch.randn(3, 60, 44), "w": torch.randn(60, 44)},
        {"s0": 16, "s1": 2**14, "s2": 2**11},
    ),
    "shares": (lambda t: torch.softmax(t["x"], 1), {"x": torch.randn(2, 3001)}, {"s0": 4, "s1": 2**28}),
    "chosen": (chosen, {"x": torch.randn(2, 3001)}, {"s0": 4, "s1": 2**28}),
}


def far(name: str) -> Problem:
    call, tensors, sizes = CALLS[name]
    return problem_of(call, tensors, cases=(sizes,))


@pytest.mark.parametrize("name", CALLS)
def test_right_where_elements_have_a_kernel_of_their_own(name: str) -> None:
    call, tensors, _ = CALLS[name]
    source = generate(far(name), APART).kernel.source
    assert "of_row" in source
    plan = plan_of(source, tensors)
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = execute(plan, build(source, plan.instances, "checked"), tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            _compare(got, want)


def test_offered_where_rows_are_few_and_hold_a_gigabyte() -> None:
    call, tensors, _ = CALLS["shares"]
    for rows, columns, offered in ((4, 2**28, True), (4, 2**22, False), (2**10, 2**20, False)):
        problem = problem_of(call, tensors, cases=({"s0": rows, "s1": columns},))
        assert ("joint_rows" in dict(settled(problem, ()))) == offered
        assert dict(settled(problem, ())).get("joint_rows", "on") == "on"


def test_predicted_to_be_as_fast_as_a_copy() -> None:
    """112x64x512x512: 7380 us on an H100, 7723 side by side; torch.compile 7546."""
    x = torch.empty(112, 64, 512, 512, device="meta")
    problem = problem_of(scaled, {"x": x}, varying=False)
    shared = (("grid_split", "on"), ("split_join", "launch"), ("vector_width", "4"))
    assert 1.02 < predicted_factor(problem, shared, (*shared, ("joint_rows", "off")), H100) < 1.08
    first = [dict(seed.vector) for seed in seed_vectors(problem, H100, 4)]
    assert any(one.get("joint_rows") == "off" for one in first)
