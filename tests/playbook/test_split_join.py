"""The last block of a row joins its pieces: right in any order, nothing left over, one launch."""

import pytest
import torch
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.plan.steps import Launch
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

SPLIT: Vector = (("block_size", "64"), ("grid_split", "on"), ("split_join", "last"), ("vector_width", "4"))
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True), Options(case="plain"))


def mean_and_deviation(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return t["x"].mean(1), t["x"].std(1)


def sums_of_columns(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    return t["x"].sum(0), t["x"].abs().sum(0)


CALLS: dict[str, tuple[Call, tuple[int, int], int]] = {
    "one_row": (lambda t: (t["x"] * t["x"]).mean(), (1, 9000), 1),
    "rows": (lambda t: t["x"].sum(1), (3, 9000), 1),
    "two_passes": (mean_and_deviation, (3, 8100), 2),
    "exponentials": (lambda t: t["x"].logsumexp(1), (2, 8100), 2),
    "places": (lambda t: t["x"].argmax(1), (3, 9001), 1),
    "columns": (lambda t: t["x"].mean(0), (500, 70), 1),
    "sums_of_columns": (sums_of_columns, (500, 72), 1),
}


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("name", "loads"), [*((name, "1") for name in CALLS), ("two_passes", "4"), ("places", "4")]
)
def test_right_whoever_comes_last(name: str, loads: str) -> None:
    call, shape, launches = CALLS[name]
    torch.manual_seed(1)
    tensors = {"x": torch.randn(shape)}
    source = generate(problem_of(call, tensors), (*SPLIT, ("loads_in_flight", loads))).kernel.source
    plan = plan_of(source, tensors)
    assert len(plan.launches) == launches, "joined without a launch of its own"
    assert plan.launches[-1].grid[1] > 1, "split into pieces"
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert not done.report.kept, "the counter is back at zero"
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-4)


def test_partial_results_of_all_kinds_are_waited_for_once() -> None:
    """Three sums of a row: three loops would be three trips to memory, one behind the other."""
    tensors = {"x": torch.empty(4, 9000)}
    call: Call = lambda t: [t["x"].sum(1), t["x"].abs().sum(1), t["x"].exp().sum(1)]  # noqa: E731
    for join in ("last", "launch"):
        source = generate(problem_of(call, tensors), (*SPLIT, ("split_join", join))).kernel.source
        assert source.count("part < pieces") == 1
        loop = source[source.index("part < pieces") :]
        assert loop[: loop.index("}")].count("_parts[") == 3


def test_a_log_of_exponentials_is_read_once() -> None:
    call: Call = lambda t: t["x"].logsumexp(1)  # noqa: E731
    tensors = {"x": torch.randn(3, 8100)}
    tensors["x"][1, ::1000] = torch.inf
    tensors["x"][2] = -torch.inf
    source = generate(problem_of(call, tensors), (*SPLIT, ("single_pass", "on"))).kernel.source
    plan = plan_of(source, tensors)
    assert "OnlineLogSum" in source and len(plan.launches) == 1
    done = execute(plan, build(source, plan.instances, "checked"), tensors, TURNS[0])
    assert not done.report.hazards
    torch.testing.assert_close(done.outputs[0], call(tensors), rtol=1e-5, atol=1e-5)


def test_a_split_that_writes_rows_keeps_its_launch() -> None:
    problem = problem_of(lambda t: t["x"].softmax(1), {"x": torch.empty(1, 2**20)}, varying=False)
    assert dict(settled(problem, SPLIT))["split_join"] == "launch", "it may be one launch by waiting only"


def test_predicted_to_save_a_launch() -> None:
    problem = problem_of(lambda t: t["x"].mean(), {"x": torch.empty(2**20)}, varying=False)
    wide = tuple(pair for pair in SPLIT if pair[0] in ("grid_split", "vector_width"))
    assert predicted_factor(problem, wide, SPLIT, H100) > 1.1


def test_long_rows_are_shared_although_each_could_have_a_block() -> None:
    """896 rows of 2,097,152 are seven blocks a multiprocessor: 8144 us on an H100, torch.compile 7514."""
    x = {"x": torch.empty(896, 2**21, device="meta")}
    problem = problem_of(lambda t: F.layer_norm(t["x"], (t["x"].shape[1],)), x)
    vector = (("grid_split", "on"), ("single_pass", "on"), ("vector_width", "4"))
    source = generate(problem, vector).kernel.source

    def grids(rows: int, columns: int) -> list[tuple[int, int, int]]:
        plan = plan_of(source, {"x": torch.empty(rows, columns, device="meta")})
        return [step.grid for step in plan.steps if isinstance(step, Launch)]

    assert grids(896, 2**21) == [(896, 16, 1)] * 2
    assert grids(896, 2**23) == [(896, 32, 1)] * 2
    assert grids(4, 2**21) == [(4, 132, 1)] * 2, "few rows: as many pieces as fill the card"
    one = {"x": torch.empty(1792, 2**20, device="meta")}
    normed = generate(problem_of(lambda t: t["x"] / t["x"].norm(), one), vector).kernel.source
    steps = [step for step in plan_of(normed, one).steps if isinstance(step, Launch)]
    assert [max(step.grid) for step in steps] == [2112, 2112], "pieces of a single row: a few waves of them"
    many = problem_of(lambda t: t["x"].softmax(1), {"x": torch.empty(4096, 393216, device="meta")})
    assert "grid_split" not in dict(settled(many, (("grid_split", "on"),))), "they end one after another"


@pytest.mark.parametrize("columns", [9000, 9001])
def test_blocks_of_a_row_walk_it_side_by_side(columns: int) -> None:
    """What they read at one time lies close together: 9% of a sum over 7.5 GB."""
    tensors = {"x": torch.empty(3, columns)}
    call: Call = lambda t: t["x"].sum(1)  # noqa: E731
    source = generate(problem_of(call, tensors), SPLIT).kernel.source
    assert "const int lane = blockIdx.y * THREADS + threadIdx.x;" in source
    assert "col += pieces * THREADS * VEC" in source
    assert "chunk" not in source, "no block has a stretch of its own, whose length it would have to know"
