"""Kernels that share a launch: side by side or stage by stage, right in any order of blocks, and fewer."""

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import plan_of, reference, run
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

SPLIT: Vector = (
    ("block_size", "64"),
    ("columns_by", "bundle"),
    ("grid_split", "on"),
    ("split_join", "last"),
    ("threads_per_row", "warp"),
    ("vector_width", "2"),
)
TURNS = (Options(case="races", races=True), Options(case="reverse", reverse=True))


def row_sums(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.nn.functional.linear(t["x"], t["w"], t["b"]).sum(1)


def other_reductions(t: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Nothing that one needs of the other."""
    return t["x"].sum(1), t["w"].mean(0)


def pointwise_behind(t: dict[str, torch.Tensor]) -> torch.Tensor:
    """Sums of columns, and then a kernel without rows that needs them."""
    return (t["x"] / t["w"].abs().sum(0)).tanh()


CALLS: dict[str, Call] = {
    "row_sums": row_sums,
    "other_reductions": other_reductions,
    "pointwise_behind": pointwise_behind,
}
MATRICES = {"x": (70, 60), "w": (300, 60), "b": (300,)}


def drawn() -> dict[str, torch.Tensor]:
    torch.manual_seed(1)
    return {name: torch.randn(shape) for name, shape in MATRICES.items()}


@pytest.mark.many(5)
@pytest.mark.parametrize(
    ("name", "launches", "count"),
    [
        ("row_sums", "beside", 2),
        ("row_sums", "together", 1),
        ("other_reductions", "beside", 1),
        ("pointwise_behind", "together", 1),
    ],
)
def test_right_in_any_order(name: str, launches: str, count: int) -> None:
    call = CALLS[name]
    tensors = drawn()
    problem = problem_of(call, tensors)
    source = generate(problem, (*SPLIT, ("launches", launches))).kernel.source
    plan = plan_of(source, tensors)
    assert (
        len(plan.launches) == count < len(plan_of(generate(problem, SPLIT).kernel.source, tensors).launches)
    )
    assert plan.launches[0].cooperative == (launches == "together")
    built = build(source, plan.instances, "checked")
    for options in TURNS:
        done = execute(plan, built, tensors, options)
        assert not done.report.hazards, done.report.hazards[0].message
        assert not done.report.kept, "counters are back at zero"
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-4)


def test_stages_are_waited_for() -> None:
    """Without the barrier rows would be multiplied with sums that are not there yet."""
    tensors = drawn()
    source = generate(problem_of(row_sums, tensors), (*SPLIT, ("launches", "together"))).kernel.source
    unsafe = source.replace("cooperative_groups::this_grid().sync();", "")
    plan = plan_of(unsafe, tensors)
    done = execute(plan, build(unsafe, plan.instances, "checked"), tensors, TURNS[0])
    assert unsafe != source and done.report.hazards


def test_where_it_is_offered() -> None:
    """Not where there is one kernel, nor where a library call stands between them."""
    alone = problem_of(lambda t: t["x"].softmax(1), {"x": torch.empty(64, 512)})
    assert "launches" not in dict(settled(alone, (("launches", "together"),)))
    needed = problem_of(pointwise_behind, drawn())
    assert dict(settled(needed, (("launches", "beside"),)))["launches"] == "apart"


@pytest.mark.slow
def test_predicted_to_save_launches() -> None:
    """Small matrices: three launches, two, and one with a barrier that is less than a launch."""
    problem = problem_of(
        row_sums, {"x": torch.empty(1024, 512), "w": torch.empty(512, 512), "b": torch.empty(512)}
    )
    at = problem.cases[0].size_map
    us = [estimate(problem, (*SPLIT, ("launches", way)), H100, at) for way in ("apart", "beside", "together")]
    assert [one.launches for one in us] == [3, 2, 1]
    assert us[0].us > us[1].us + 2 > us[2].us + 3
    assert any("together" in dict(card.vector or ()).values() for card in seed_vectors(problem, H100))


LEAVING: dict[str, tuple[Call, tuple[int, ...], Vector]] = {
    "lanes of a warp with several rows": (
        lambda t: (s := t["x"].exp().sum(1)) - s.mean(),
        (77, 8),
        (("block_size", "64"), ("threads_per_row", "eight"), ("vector_width", "4")),
    ),
    "the block that joins pieces": (
        lambda t: t["x"].amax(1).tanh().sum(1),
        (5, 1000, 7),
        (("block_size", "64"), ("threads_per_row", "thread"), ("grid_split", "on"), ("split_join", "last")),
    ),
}


@pytest.mark.many(2)
@pytest.mark.parametrize("name", LEAVING)
def test_threads_that_leave_early_are_not_waited_for(name: str) -> None:
    """Beyond the last row they are done with the kernel, where it has a launch of its own."""
    call, shape, vector = LEAVING[name]
    torch.manual_seed(1)
    tensors = {"x": torch.randn(shape)}
    source = generate(problem_of(call, tensors), (*vector, ("launches", "together"))).kernel.source
    plan = plan_of(source, tensors)
    done = execute(plan, build(source, plan.instances, "checked"), tensors, TURNS[0])
    assert not done.report.hazards, done.report.hazards[0].message
    assert torch.allclose(
        done.outputs[0].double(), reference(call, tensors)[0].double(), rtol=1e-4, atol=1e-4
    )


def test_nothing_is_launched_where_there_is_nothing_to_do() -> None:
    """Differences of neighbours of a single column: a grid of no blocks would be refused."""

    def differences(t: dict[str, torch.Tensor]) -> torch.Tensor:
        before = t["x"][:, 1:] * 2
        return torch.cat([before - t["x"][:, :-1], t["x"][:, :1]], 1)

    problem = problem_of(differences, {"x": torch.randn(5, 8)}, cases=({"s0": 5, "s1": 1},))
    assert problem.symbols == ("s0", "s1")
    source = generate(problem, (("fusion", "none"),)).kernel.source
    assert "if cols - 1 > 0:" in source
    for columns in (8, 1):
        x = {"x": torch.randn(5, columns)}
        assert torch.equal(run(source, x).outputs[0], reference(differences, x)[0].float())
