"""Pieces of a row whose last block hears in words what the others tell: one launch and no scratch."""

from __future__ import annotations

import pytest
import torch

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of, reference
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100, Vector
from workbench.plan.facts import facts
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.schedules.schedule import most_told, pieces_of, schedule_of
from workbench.playbook.techniques.table import settled

TOLD: Vector = (("block_size", "64"), ("grid_split", "on"), ("split_join", "told"), ("vector_width", "4"))
LAST: Vector = tuple({**dict(TOLD), "split_join": "last"}.items())


def _count(t: dict[str, torch.Tensor]) -> torch.Tensor:
    return (t["x"] > 0).sum(1)


CALLS: dict[str, tuple[Call, tuple[int, ...]]] = {
    "mean_of_all": (lambda t: (t["x"] - 1).square().mean(), (9000,)),
    "two_sums_in_a_word": (lambda t: (t["x"].sum(), t["x"].abs().sum()), (9001,)),
    "logsumexp": (lambda t: t["x"].logsumexp(1), (3, 9000)),
    "places": (lambda t: t["x"].argmax(1), (2, 9001)),
    "whole_numbers": (_count, (2, 9000)),
    "all_zero": (lambda t: (t["x"] * 0).sum(1), (2, 9000)),
    "any": (lambda t: (t["x"] > 3).any(1), (3, 9000)),
    "a_sum_and_a_count": (lambda t: (t["x"].sum(), (t["x"] > 0).sum()), (9001,)),
    "far_beyond_32_bits": (lambda t: (t["x"] * 2**20).long().abs().mul(2**20).sum(1), (2, 9000)),
    "moments": (lambda t: t["x"].var(1), (2, 9000)),
}


@pytest.mark.many(13)
@pytest.mark.parametrize("name", CALLS)
def test_right_again_and_again(name: str) -> None:
    """Words are zero again after each launch; a part that is zero is told as well."""
    call, shape = CALLS[name]
    torch.manual_seed(1)
    tensors = {"x": torch.randn(shape)}
    source = generate(problem_of(call, tensors), TOLD).kernel.source
    plan = plan_of(source, tensors)
    assert facts(plan, name).launches == 1 and facts(plan, name).workspace_bytes == 0
    assert plan.launches[0].grid[1] == 9
    built = build(source, plan.instances, "checked")
    for _ in range(2):
        done = execute(plan, built, tensors, Options(case="races", races=True))
        assert not done.report.hazards, done.report.hazards[0].message
        for got, want in zip(done.outputs, reference(call, tensors), strict=True):
            assert torch.allclose(got.double(), want.double(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mean_of_all", 1),
        ("two_sums_in_a_word", 1),
        ("a_sum_and_a_count", 1),
        ("places", 1),
        ("far_beyond_32_bits", 2),
        ("moments", 2),
    ],
)
def test_numbers_share_words(name: str, words: int) -> None:
    """Two of 32 bits a word, whatever they belong to, if one of them is a float."""
    call, shape = CALLS[name]
    source = generate(problem_of(call, {"x": torch.randn(shape)}), TOLD).kernel.source
    assert f"_told[{4096 * words}]" in source


def test_the_block_that_hears_keeps_its_own_part() -> None:
    """The way of its own word would be the last thing that it waits for; and it joins only once."""
    call, shape = CALLS["mean_of_all"]
    source = generate(problem_of(call, {"x": torch.randn(shape)}), TOLD).kernel.source
    kernel = source[source.index("_pieces(") :]
    hears, joins, tells = map(kernel.index, ("hear(", "block_reduce<Sum>(", "tell("))
    assert hears < joins < tells and kernel.count("block_reduce<Sum>(") == 1
    assert "part < pieces - 1" in kernel


def test_special_values_are_told() -> None:
    x = torch.randn(4, 8200)
    x[0, 5], x[1, 7], x[2], x[3, :4000] = torch.inf, torch.nan, -torch.inf, -torch.inf
    call: Call = lambda t: t["x"].logsumexp(1)  # noqa: E731
    check(call, generate(problem_of(call, {"x": x}), TOLD).kernel.source, {"x": x})


def test_fewer_rows_wait_than_the_card_has_multiprocessors() -> None:
    """Those that wait may be anywhere: there must be room for those they wait for."""
    schedule = schedule_of(TOLD)
    assert pieces_of(schedule, H100, H100.sm_count - 1, 2**20) > 1
    assert pieces_of(schedule, H100, H100.sm_count, 2**20) == 1
    assert pieces_of(schedule, H100, 1, 2**30) == most_told(64) == 1024
    call: Call = lambda t: t["x"].amax(1)  # noqa: E731
    source = generate(problem_of(call, {"x": torch.randn(2, 9000)}), TOLD).kernel.source
    for rows in (H100.sm_count - 1, H100.sm_count):
        launch = plan_of(source, {"x": torch.empty(rows, 9000)}).launches[0]
        assert (launch.grid[1] > 1) == (rows < H100.sm_count)


def test_columns_and_two_passes_have_a_counter() -> None:
    """A bundle of columns leaves too much for words; of two passes, each block would hear all parts."""
    columns = problem_of(lambda t: t["x"].mean(0), {"x": torch.randn(9000, 64)})
    twice = problem_of(
        lambda t: (t["x"] - t["x"].mean(1, keepdim=True)).abs().sum(1), {"x": torch.randn(2, 9000)}
    )
    for problem, vector in ((columns, (*TOLD, ("threads_per_row", "thread"))), (twice, TOLD)):
        found = dict(settled(problem, vector))
        assert found["grid_split"] == "on" and found.get("split_join") != "told"


def test_it_is_predicted_to_save_a_fence_and_a_trip_and_is_among_the_first() -> None:
    call: Call = lambda t: (t["x"] - t["y"]).square().mean()  # noqa: E731
    tensors = {name: torch.empty(4096, 4096) for name in "xy"}
    problem = problem_of(call, tensors)
    sizes = problem.cases[0].size_map
    told, last = (estimate(problem, settled(problem, vector), H100, sizes).us for vector in (TOLD, LAST))
    assert told < last - 0.5
    assert any(dict(card.vector).get("split_join") == "told" for card in seed_vectors(problem, H100, 4))


def test_several_rows_of_a_known_number_have_a_kernel_that_waits_for_nobody() -> None:
    """A block of each waits: a card of one multiprocessor has room for two."""
    for rows in (1, 2):
        x = torch.randn(rows, 5000)
        problem = problem_of(lambda t: t["x"].mean(1), {"x": x}, varying=False)
        plan = generate(problem, TOLD).kernel.source.partition("*/")[0]
        assert (f"{rows} < gpu.sm_count" in plan) == (rows > 1)
