"""Which parents, which operators, how many hypotheses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import judged, opened, proposed, written

from workbench.events import (
    BranchAbandoned,
    BranchApproved,
    BranchProposed,
    BranchPruned,
    Event,
    HintGiven,
    RoundEnded,
    RoundStarted,
)
from workbench.model import BranchId, Operator
from workbench.policy import Policy
from workbench.search import Propose, decide, failing_children, plan_round
from workbench.tree import Tree, fold

REFINE_ONLY = Policy(rewrite=0, crossover=0)


def b(*ids: str) -> tuple[BranchId, ...]:
    return tuple(map(BranchId, ids))


def node(
    id: str, *parents: str, source: str, round: int = 1, operator: Operator | None = None
) -> list[Event]:
    return [
        proposed(id, *parents, round=round, operator=operator),
        written(id, source),
        judged(id, source),
    ]


def tree_of(*rounds: list[Event], **options: object) -> Tree:
    """A session between rounds, after these."""
    events: list[Event] = [opened(**options)]
    for number, inside in enumerate(rounds, start=1):
        events += [RoundStarted(round=number), *inside, RoundEnded(round=number, best=None, score=0.0)]
    return fold(events)


THREE_SEEDS = [
    *node("b1", source="// us 50"),
    *node("b2", source="// us 40"),
    *node("b3", source="// us 60"),
]


def parents_of(plan: tuple[Propose, ...]) -> list[BranchId]:
    return [parent for ask in plan for parent in ask.parents]


def test_the_best_two_get_two_hypotheses_each() -> None:
    assert plan_round(tree_of(THREE_SEEDS), REFINE_ONLY) == (
        Propose(2, "refine", b("b2"), 2),
        Propose(2, "refine", b("b1"), 2),
    )


def test_a_lonely_parent_gets_all_places() -> None:
    tree = tree_of([*node("b1", source="// us 50"), *node("b2", source="oops")])
    assert plan_round(tree, REFINE_ONLY) == (Propose(2, "refine", b("b1"), 4),)


def test_without_a_correct_kernel_there_are_new_seeds() -> None:
    assert plan_round(tree_of(node("b1", source="oops")), Policy()) == (Propose(2, "seed", (), 3),)


def test_parents_come_from_the_last_two_rounds() -> None:
    second = node("b4", "b2", source="// us 70", round=2)
    third = node("b5", "b2", source="// us 80", round=3)
    tree = tree_of(THREE_SEEDS, second, third)
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b4", "b5"]


def test_two_failed_rounds_fall_back_to_the_best_of_all() -> None:
    second = node("b4", "b2", source="oops", round=2)
    third = node("b5", "b2", source="oops", round=3)
    assert parents_of(plan_round(tree_of(THREE_SEEDS, second, third), REFINE_ONLY)) == ["b2", "b1"]


def test_the_persons_choice_goes_first_and_the_best_fill_up() -> None:
    tree = tree_of(THREE_SEEDS).apply(BranchApproved(branch=BranchId("b3"), by="person"))
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b3", "b2"]
    for id in ("b1", "b2"):
        tree = tree.apply(BranchApproved(branch=BranchId(id), by="person"))
    assert plan_round(tree, REFINE_ONLY) == tuple(Propose(2, "refine", b(id), 2) for id in ("b1", "b2", "b3"))


def test_a_person_may_choose_a_failing_kernel() -> None:
    tree = tree_of([*node("b1", source="// us 50"), *node("b2", source="// wrong")])
    tree = tree.apply(BranchApproved(branch=BranchId("b2"), by="person"))
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b2", "b1"]


def test_pruned_branches_and_those_below_are_no_parents() -> None:
    tree = tree_of(THREE_SEEDS, node("b4", "b2", source="// us 20", round=2))
    tree = tree.apply(BranchPruned(branch=BranchId("b2"), by="person"))
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b1", "b3"]


def test_a_branch_with_three_failing_children_gets_no_more() -> None:
    children = [event for i in (4, 5, 6) for event in node(f"b{i}", "b2", source=f"oops {i}", round=2)]
    tree = tree_of(THREE_SEEDS, children)
    assert failing_children(tree, BranchId("b2")) == 3
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b1", "b3"]
    repaired = node("b6.1", "b6", source="// us 45", round=2, operator="repair")
    tree = tree_of(THREE_SEEDS, [*children, *repaired])
    assert failing_children(tree, BranchId("b2")) == 2  # one was repaired in the end
    assert parents_of(plan_round(tree, REFINE_ONLY))[0] == "b2"


def test_what_the_person_says_during_a_round_is_for_the_next() -> None:
    started = tree_of(THREE_SEEDS).apply(RoundStarted(round=2))
    asked = decide(started, Policy())
    late = [
        BranchApproved(branch=BranchId("b3"), by="person"),
        BranchPruned(branch=BranchId("b2"), by="person"),
        HintGiven(text="try this", by="person"),
    ]
    assert decide(fold(late, started), Policy()) == asked
    next_round = fold([*late, RoundEnded(round=2, best=None, score=0.0)], started)
    assert parents_of(plan_round(next_round, REFINE_ONLY)) == ["b3", "b1"]


# ------------------------------------------------------------------------------ operators


def grow(policy: Policy, rounds: int) -> Tree:
    """Play rounds in which every hypothesis works."""
    tree = tree_of(THREE_SEEDS)
    number = 3
    for round in range(2, rounds + 1):
        plan = plan_round(tree, policy)
        events: list[Event] = [RoundStarted(round=round)]
        for ask in plan:
            for _ in range(ask.count):
                number += 1
                source = f"// us {60 - number}"
                events += node(f"b{number}", *ask.parents, source=source, round=round, operator=ask.operator)
        tree = fold([*events, RoundEnded(round=round, best=None, score=0.0)], tree)
    return tree


@pytest.mark.parametrize("seed", range(20))
def test_three_rounds_have_a_rewrite_and_a_crossover(seed: int) -> None:
    tree = grow(Policy(seed=seed), rounds=3)
    operators = [n.operator for n in tree.nodes.values()]
    assert operators.count("rewrite") >= 1
    assert operators.count("crossover") >= 1
    assert operators.count("refine") > operators.count("rewrite") > operators.count("crossover")


def test_shares_hold_over_many_rounds() -> None:
    tree = grow(Policy(branches=99), rounds=11)
    operators = [n.operator for n in tree.nodes.values() if n.operator != "seed"]
    assert len(operators) == 40
    assert (operators.count("refine"), operators.count("rewrite"), operators.count("crossover")) == (
        24,
        12,
        4,
    )


def test_the_seed_changes_the_plan_and_nothing_else_does() -> None:
    tree = tree_of(THREE_SEEDS)
    plans = {plan_round(tree, Policy(seed=seed)) for seed in range(10)}
    assert len(plans) > 1
    assert plan_round(tree, Policy(seed=7)) == plan_round(tree, Policy(seed=7))


def crossovers(tree: Tree) -> list[tuple[BranchId, ...]]:
    plan = plan_round(tree, Policy(refine=0, rewrite=0, crossover=1))
    return [ask.parents for ask in plan if ask.operator == "crossover"]


def test_crossover_needs_two_correct_kernels_with_different_vectors() -> None:
    assert crossovers(tree_of(THREE_SEEDS)) == [b("b2", "b1"), b("b2", "b3"), b("b1", "b3")]
    alone = [*node("b1", source="// us 50"), *node("b2", source="// wrong")]
    assert crossovers(tree_of(alone)) == []
    vector = (("a", "1"),)
    same = [proposed("b1"), written("b1", "x", vector), judged("b1", "// us 50")]
    same += [proposed("b2"), written("b2", "y", vector), judged("b2", "// us 40")]
    assert crossovers(tree_of(same)) == []


def test_a_pair_is_crossed_once() -> None:
    tree = tree_of(THREE_SEEDS, node("b4", "b1", "b2", source="oops", round=2))
    assert b("b2", "b1") not in crossovers(tree)


@given(
    st.builds(
        Policy,
        parents=st.integers(1, 4),
        hypotheses=st.integers(0, 4),
        refine=st.floats(0, 1),
        rewrite=st.floats(0, 1),
        crossover=st.floats(0, 1),
        branches=st.integers(3, 30),
        seed=st.integers(0, 99),
    )
)
def test_a_plan_keeps_to_its_width_and_budget(policy: Policy) -> None:
    tree = tree_of(THREE_SEEDS)
    plan = plan_round(tree, policy)
    planned = sum(ask.count for ask in plan)
    assert planned == min(policy.parents * policy.hypotheses, policy.branches - 3)
    assert len({(ask.operator, ask.parents) for ask in plan}) == len(plan)
    assert all(len(ask.parents) == (2 if ask.operator == "crossover" else 1) for ask in plan)


def recalled(id: str, source: str) -> list[Event]:
    first, *others = node(id, source=source)
    assert isinstance(first, BranchProposed)
    card = first.branch.hypothesis.model_copy(update={"recalled": True})
    return [BranchProposed(branch=first.branch.model_copy(update={"hypothesis": card})), *others]


def test_a_recalled_kernel_is_asked_about_on_top_and_takes_nobodys_place() -> None:
    without, with_it = tree_of(THREE_SEEDS), tree_of([*THREE_SEEDS, *recalled("b4", "// us 20")])
    usual = plan_round(without, REFINE_ONLY)
    assert plan_round(with_it, REFINE_ONLY) == (*usual, Propose(2, "refine", b("b4"), 2))
    tight = REFINE_ONLY.model_copy(update={"branches": 3 + 4 * 2})
    assert plan_round(with_it, tight) == plan_round(without, tight)


def test_a_recalled_kernel_that_is_no_good_here_gets_no_children_and_its_children_are_its_line() -> None:
    slow = tree_of([*THREE_SEEDS, *recalled("b4", "// us 90")])
    assert plan_round(slow, REFINE_ONLY) == plan_round(tree_of(THREE_SEEDS), REFINE_ONLY)
    seeds = [*THREE_SEEDS, *recalled("b4", "// us 20")]
    tree = tree_of(
        seeds, [*node("b5", "b2", source="// us 30", round=2), *node("b6", "b4", source="// us 10", round=2)]
    )
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b5", "b2", "b6"]


def test_a_recalled_kernel_that_the_search_came_to_as_well_is_its_own() -> None:
    twin = [
        *node("b4", source="// us 20")[:2],
        BranchAbandoned(branch=BranchId("b4"), reason="", duplicate_of=BranchId("b1")),
    ]
    tree = tree_of(
        [*recalled("b1", "// us 20"), *node("b2", source="// us 40"), *node("b3", source="// us 60"), *twin]
    )
    assert parents_of(plan_round(tree, REFINE_ONLY)) == ["b1", "b2"]


def test_only_a_recalled_kernel_is_right() -> None:
    tree = tree_of([*node("b1", source="oops"), *recalled("b2", "// us 20")])
    assert plan_round(tree, REFINE_ONLY) == (Propose(2, "refine", b("b2"), 4),)
