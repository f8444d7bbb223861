"""Eight or four lanes a row: right where rows end a warp early, in any order, and only for short rows."""

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
from workbench.plan.steps import Launch
from workbench.playbook.estimates.estimate import estimate, predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

Tensors = dict[str, torch.Tensor]
EIGHT: Vector = (("block_size", "64"), ("threads_per_row", "eight"), ("vector_width", "4"))
FOUR: Vector = (("block_size", "64"), ("threads_per_row", "four"), ("vector_width", "4"))


def normed(t: Tensors) -> torch.Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[1],), t["w"], t["b"])


def two_results(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    return t["x"].float().logsumexp(1), t["x"].argmax(1)


def then_a_long_row(t: Tensors) -> torch.Tensor:
    return torch.softmax(torch.softmax(t["x"], 1).reshape(1, -1), 1)


def weighted(columns: int) -> Tensors:
    return {"x": torch.randn(37, columns), "w": torch.randn(columns), "b": torch.randn(columns)}


CALLS: dict[str, tuple[Call, Tensors]] = {
    "whole_vectors": (normed, weighted(64)),
    "fewer_than_lanes": (normed, weighted(3)),
    "odd_rows": (normed, weighted(61)),
    "odd_halves": (two_results, {"x": torch.randn(29, 45).half()}),
    "beside_a_long_row": (then_a_long_row, {"x": torch.randn(45, 20)}),
}


@pytest.mark.many(41)
@pytest.mark.parametrize("single", ["off", "on"])
@pytest.mark.parametrize("cache", ["registers", "reread"])
@pytest.mark.parametrize(("lanes", "team"), [(8, EIGHT), (4, FOUR)])
@pytest.mark.parametrize("name", CALLS)
def test_right_in_any_order(name: str, lanes: int, team: Vector, cache: str, single: str) -> None:
    call, tensors = CALLS[name]
    vector = (*team, ("row_cache", cache), ("single_pass", single), ("persistent_grid", "on"))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert f", {lanes}>(" in source
    plan = plan_of(source, tensors)
    kernel = build(source, plan.instances, "checked")
    for options in (Options(case="races", races=True), Options(case="reverse", reverse=True)):
        done = execute(plan, kernel, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            _compare(got, want)


def groups(rows: int, columns: int) -> Problem:
    x = torch.empty(rows, columns, device="meta")
    return problem_of(lambda t: F.layer_norm(t["x"], (columns,)), {"x": x}, varying=False)


@pytest.mark.parametrize(("team", "blocks"), [(EIGHT, 125), (FOUR, 63)])
def test_a_warp_has_four_rows_or_eight(team: Vector, blocks: int) -> None:
    source = generate(groups(1000, 64), team).kernel.source
    plan = plan_of(source, {"x": torch.empty(1000, 64)})
    assert [step.grid[0] for step in plan.steps if isinstance(step, Launch)] == [blocks]


def test_four_lanes_are_for_shorter_rows_than_eight() -> None:
    for columns, teams in ((128, ["eight", "four"]), (256, ["eight"]), (257, [])):
        asked = [dict(settled(groups(4096, columns), team))["threads_per_row"] for team in (EIGHT, FOUR)]
        assert [team for team in asked if team in ("eight", "four")] == teams


def test_short_rows_begin_with_it_and_long_ones_do_not_have_it() -> None:
    short = groups(2**21, 64)
    best = max(seed_vectors(short, H100, 5), key=lambda card: card.predicted_factor)
    assert dict(best.vector)["threads_per_row"] == "eight"
    warp = settled(short, (("row_cache", "registers"), ("threads_per_row", "warp"), ("vector_width", "4")))
    assert predicted_factor(short, warp, best.vector, H100) > 1.03
    assert dict(settled(groups(4096, 4096), EIGHT))["threads_per_row"] != "eight"


def in_groups(t: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    x = t["x"].float()
    scale = x.abs().amax(-1, keepdim=True) / 7
    return (x / scale).round().clamp(-8, 7).to(torch.int8), scale


@pytest.mark.many(2)
@pytest.mark.parametrize(("columns", "lanes"), [(32, "four"), (64, "eight")])
def test_no_lane_is_idle_where_rows_are_short(columns: int, lanes: str) -> None:
    tensors = {"x": torch.empty(2**20, columns, dtype=torch.float16, device="meta")}
    problem = problem_of(in_groups, tensors)
    seeds = [dict(seed.vector) for seed in seed_vectors(problem, H100, 4)]
    chosen = [seed for seed in seeds if seed["threads_per_row"] in ("eight", "four")]
    assert (chosen[0]["threads_per_row"], chosen[0]["vector_width"]) == (lanes, "8")


def test_the_fewer_columns_a_row_the_more_its_own_values_cost() -> None:
    def us(columns: int, call: Call) -> float:
        tensors = {"x": torch.empty(2**25 // columns, columns, device="meta")}
        problem = problem_of(call, tensors)
        return estimate(problem, settled(problem, EIGHT), H100, problem.cases[0].size_map).us

    def centred(t: Tensors) -> torch.Tensor:
        return t["x"] - t["x"].amax(-1, keepdim=True)

    def by_far_functions(t: Tensors) -> torch.Tensor:
        top = t["x"].amax(-1, keepdim=True)
        return t["x"] - top.erf().atan().sinh().tan().lgamma().acosh().tanh().sin().cos()

    short, long = (us(columns, by_far_functions) / us(columns, centred) for columns in (8, 256))
    assert short > 1.05 and long < 1.01  # memory hides most of it, and all of it in long rows
