"""A round ends with one kernel of those that were fastest at different shapes, where that is worth it."""

from __future__ import annotations

import pytest
from toy import opened, proposed, written

from workbench.events import (
    AgentAnswered,
    BranchPruned,
    Event,
    KernelJudged,
    LessonLearnt,
    RoundEnded,
    RoundShaped,
    RoundStarted,
)
from workbench.model import BranchId, CaseTime, Digest, Evaluation, Passed
from workbench.policy import Policy
from workbench.search import Command, EndRound, Propose, Synthesize, decide
from workbench.search.shapes import shares
from workbench.tree import Tree, fold

POLICY = Policy(seeds=3, crossover=0)
JOIN = Propose(1, "crossover", (BranchId("b2"), BranchId("b1")), 1)


def found(id: str, *times_us: float, source: str = "measured") -> list[Event]:
    """A branch from proposal to lesson, with a time at each of the cases 0, 1, ..."""
    branch = BranchId(id)
    times = tuple(
        CaseTime.model_validate(
            {
                "case": str(i),
                "source": source,
                "time_us": us,
                "floor_us": 1.0,
                "baselines": (("eager", 100.0),),
            }
        )
        for i, us in enumerate(times_us)
    )
    judged = Evaluation(kernel=Digest(id), device="null", target="t", outcome=Passed(), times=times)
    lesson = LessonLearnt(branch=branch, expected_factor=1.0, actual_factor=None, lesson="")
    return [
        proposed(id),
        written(id, f"// {id}"),
        KernelJudged(branch=branch, evaluation=judged),
        lesson,
    ]


def round_of(*branches: list[Event], more: tuple[Event, ...] = ()) -> Tree:
    start = [opened(), *more, RoundStarted(round=1)]
    answer = AgentAnswered(round=1, operator="seed", asked=3, given=3)
    return fold([*start, answer, *(event for branch in branches for event in branch)])


def last(tree: Tree, policy: Policy = POLICY) -> tuple[Command, ...]:
    return decide(tree, policy)


THREE = (found("b1", 10.0, 40.0), found("b2", 20.0, 10.0), found("b3", 30.0, 50.0))


def test_each_shape_takes_its_fastest_kernel() -> None:
    best = shares([{"a": 10.0, "b": 40.0}, {"a": 20.0, "b": 10.0}, {"a": 30.0, "b": 50.0}])
    assert best is not None and best.by_case == (("a", 0), ("b", 1)) and best.kernels == (0, 1)
    assert best.gain == pytest.approx((20 / 10) ** 0.5)


def test_within_noise_fewer_kernels_are_better() -> None:
    best = shares([{"a": 10.0, "b": 10.0, "c": 9.9}, {"a": 9.9, "b": 12.0, "c": 10.0}])
    assert best is not None and best.kernels == (0,) and best.gain == pytest.approx(1.0)


def test_what_is_left_goes_to_the_kernel_that_is_best_there_not_everywhere() -> None:
    # Softmax of an H100: the third is close to the second at "long", and better than it elsewhere.
    first = {"long": 383.5, "few": 4.45, "short": 12.0}
    others = [{"long": 366.6, "few": 5.3, "short": 14.0}, {"long": 370.8, "few": 4.7, "short": 11.8}]
    best = shares([first, *others])
    assert best is not None and dict(best.by_case) == {"long": 1, "few": 0, "short": 0}


def test_at_most_so_many_kernels_and_only_complete_times() -> None:
    kernels = [{str(i): 10.0 if i == j else 20.0 for i in range(6)} for j in range(6)]
    best = shares(kernels, most=3)
    assert best is not None and len(best.kernels) == 3
    partial = shares([{"a": 10.0, "b": 10.0}, {"a": 1.0}])
    assert partial is not None and partial.kernels == (0,)
    assert shares([]) is None and shares([{}]) is None


def test_a_round_ends_by_joining_the_fastest() -> None:
    assert last(round_of(*THREE)) == (JOIN,)


def test_joining_is_asked_once() -> None:
    tree = round_of(*THREE)
    none = tree.apply(AgentAnswered(round=1, operator="crossover", parents=JOIN.parents, asked=1, given=0))
    assert last(none) == (EndRound(1),)
    given = [
        proposed("b4", "b2", "b1", operator="crossover"),
        AgentAnswered(round=1, operator="crossover", parents=JOIN.parents, asked=1, given=1),
    ]
    for event in given:
        tree = tree.apply(event)
    assert last(tree) == (Synthesize(BranchId("b4")),)
    for event in found("b4", 10.0, 30.0)[1:]:
        tree = tree.apply(event)
    assert last(tree) == (EndRound(1),), "b2 and b4 would gain again, but one a round is enough"
    after = tree.apply(RoundEnded(round=1, best=BranchId("b4"), score=1.0))
    assert not any(isinstance(c, Propose) and c.operator == "crossover" for c in last(after))


def test_no_joining_without_gain() -> None:
    level = (found("b1", 10.0, 10.2), found("b2", 10.4, 10.0), found("b3", 30.0, 50.0))
    assert last(round_of(*level)) == (EndRound(1),)
    assert last(round_of(*THREE), Policy(seeds=3, by_shape=0)) == (EndRound(1),)
    assert last(round_of(*THREE), Policy(seeds=3, branches=3)) == (EndRound(1),)
    assert last(round_of(*THREE), Policy(seeds=3, by_shape=0.5)) == (EndRound(1),)


def test_a_model_is_not_held_against_a_clock_and_pruned_branches_are_left() -> None:
    mixed = (found("b1", 10.0, 40.0, source="model"), found("b2", 20.0, 10.0), found("b3", 30.0, 50.0))
    assert last(round_of(*mixed)) == (EndRound(1),)
    pruned = round_of(*THREE).apply(BranchPruned(branch=BranchId("b1"), by="p"))
    assert JOIN not in last(pruned)


def test_the_person_decides_how_a_round_is_filled() -> None:
    shaped = RoundShaped(operators=("refine",), by="p")
    assert last(round_of(*THREE, more=(shaped,))) == (EndRound(1),)
    crossing = RoundShaped(operators=("refine", "crossover"), by="p")
    assert last(round_of(*THREE, more=(crossing,))) == (JOIN,)
