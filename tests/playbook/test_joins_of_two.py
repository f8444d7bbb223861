"""What the threads of a block have of two values meets at one pair of barriers."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import Vector
from workbench.playbook.generate import generate

_BLOCK: Vector = (("block_size", "64"), ("vector_width", "4"))

_CALLS: dict[str, Call] = {
    "two": lambda t: (t["x"].sum(1), t["x"].amax(1)),
    "three": lambda t: (t["x"].sum(1), t["x"].amax(1), (t["x"] > 0).sum(1)),
    "truth and a place": lambda t: ((t["x"] > 3).any(1), t["x"].argmax(1)),
    "structs": lambda t: (t["x"].logsumexp(1), (t["x"] * t["x"]).logsumexp(1)),
    "halves": lambda t: (t["x"].half().amax(1), t["x"].short().amin(1)),
}


def _right(call: Call, source: str, tensors: dict[str, torch.Tensor]) -> None:
    plan = plan_of(source, tensors)
    built = build(source, plan.instances, "checked")
    for reverse in (False, True):
        done = execute(plan, built, tensors, Options(case="two", races=not reverse, reverse=reverse))
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-3, atol=1e-3, equal_nan=True)


@pytest.mark.many(5)
@pytest.mark.parametrize("name", _CALLS)
def test_two_values_meet_at_once(name: str) -> None:
    """A third value meets by itself."""
    call = _CALLS[name]
    torch.manual_seed(2)
    tensors = {"x": torch.randn(19, 270)}
    tensors["x"][3, 100], tensors["x"][5, 269], tensors["x"][7] = torch.inf, -torch.inf, -1.0
    source = generate(problem_of(call, tensors), (*_BLOCK, ("single_pass", "on"))).kernel.source
    body = source[source.index("__global__") :]
    assert body.count("block_reduce_both<") == 1
    assert body.count("= block_reduce<") == (name == "three")
    _right(call, source, tensors)


@pytest.mark.slow
def test_blocks_that_stay_use_the_same_places_for_every_row() -> None:
    call = _CALLS["two"]
    tensors = {"x": torch.randn(600, 36)}
    vector = (("block_size", "1024"), ("vector_width", "4"), ("persistent_grid", "on"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert "block_reduce_both<" in source and plan_of(source, tensors).launches[0].grid[0] == 264
    _right(call, source, tensors)


def test_a_tree_and_a_cluster_join_one_by_one() -> None:
    def both(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return (t["x"] - t["x"].mean(1, keepdim=True)) / t["x"].abs().amax(1, keepdim=True)

    for shape, more in (((3, 400), ("block_reduction", "tree")), ((2, 9000), ("cluster", "4"))):
        tensors = {"x": torch.randn(shape)}
        problem = problem_of(both, {"x": torch.randn(3, 5)}, cases=({"s0": 500, "s1": 15000},))
        source = generate(problem, (*_BLOCK, ("row_cache", "registers"), more)).kernel.source
        used = source[source.index(f"void op{'_cluster' if more[0] == 'cluster' else ''}(") :]
        assert used[: used.index("\n}")].count("block_reduce_both") == 0
        _right(both, source, tensors)
    plain = generate(problem_of(both, {"x": torch.randn(3, 400)}), _BLOCK).kernel.source
    assert "block_reduce_both<" in plain
