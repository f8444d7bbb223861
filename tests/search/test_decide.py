"""Whole command lists: given this tree, exactly this is to be done."""

import pytest
from toy import branch, card, judged, opened, proposed, written

from workbench.events import (
    AgentAnswered,
    BranchAbandoned,
    BranchProposed,
    BranchPruned,
    Event,
    LessonLearnt,
    RoundEnded,
    RoundsRequested,
    RoundStarted,
    SearchStopped,
)
from workbench.model import BranchId
from workbench.policy import Policy
from workbench.search import (
    Abandon,
    AskPerson,
    Command,
    EndRound,
    Evaluate,
    Propose,
    Reflect,
    Repair,
    StartRound,
    Stop,
    Synthesize,
    admit,
    decide,
)
from workbench.tree import Tree, fold


def b(id: str) -> BranchId:
    return BranchId(id)


def done(id: str, *parents: str, source: str, round: int = 1, operator: str | None = None) -> list[Event]:
    """All that happens to a branch from proposal to lesson."""
    lesson = LessonLearnt(branch=b(id), expected_factor=1.0, actual_factor=None, lesson="")
    begin = proposed(id, *parents, round=round, operator=operator)  # type: ignore[arg-type]
    return [begin, written(id, source), judged(id, source), lesson]


def seeds_asked(given: int = 3) -> list[Event]:
    return [RoundStarted(round=1), AgentAnswered(round=1, operator="seed", asked=3, given=given)]


def round_one(*sources: str, best: str = "b1", **options: object) -> Tree:
    """A finished first round of seeds b1, b2, ... with these kernels."""
    nodes = [event for i, source in enumerate(sources, 1) for event in done(f"b{i}", source=source)]
    tree = fold([opened(**options), *seeds_asked(len(sources)), *nodes])
    found = tree.best()
    score = tree.nodes[found].score if found else 0.0
    return tree.apply(RoundEnded(round=1, best=found, score=score))


def ask(tree: Tree, **options: object) -> tuple[Command, ...]:
    return decide(tree, Policy.model_validate(options))


# ------------------------------------------------------------------------------ a round


def test_it_begins_with_seeds() -> None:
    assert ask(fold([opened()])) == (StartRound(1), Propose(1, "seed", (), 3))


def test_requests_stay_until_they_are_answered() -> None:
    tree = fold([opened(), RoundStarted(round=1), proposed("b1")])
    assert ask(tree) == (Propose(1, "seed", (), 3), Synthesize(b("b1")))


def test_kernels_are_written_then_judged() -> None:
    tree = fold([opened(), *seeds_asked(), proposed("b1"), proposed("b2"), proposed("b3")])
    assert ask(tree) == (Synthesize(b("b1")), Synthesize(b("b2")), Synthesize(b("b3")))
    tree = tree.apply(written("b1", "// us 50"))
    assert ask(tree) == (Evaluate(b("b1")), Synthesize(b("b2")), Synthesize(b("b3")))


def promising(id: str, factor: float, author: str = "playbook") -> BranchProposed:
    """A branch of which so much is expected."""
    plain = branch(id, round=1)
    hypothesis = plain.hypothesis.model_copy(update={"predicted_factor": factor})
    return BranchProposed(branch=plain.model_copy(update={"hypothesis": hypothesis, "author": author}))


def test_of_written_kernels_the_most_promising_is_judged_first() -> None:
    """What is only there to be compared with may take an emulator all the time that a person has."""
    chain, plain, best = promising("b1", 1.0), promising("b2", 0.4), promising("b3", 9.0)
    tree = fold([opened(), *seeds_asked(), chain, plain, best, written("b1", "// us 50")])
    assert ask(tree) == (Synthesize(b("b2")), Synthesize(b("b3")))
    tree = fold([written("b2", "// us 60"), written("b3", "// us 5")], tree)
    assert ask(tree) == (Evaluate(b("b3")), Evaluate(b("b1")), Evaluate(b("b2")))


def test_nobody_waits_for_a_kernel_that_takes_its_time_to_be_written() -> None:
    chain, best = promising("b1", 1.0), promising("b2", 9.0, author="a model of language")
    tree = fold([opened(), *seeds_asked(2), chain, best, written("b1", "// us 50")])
    assert ask(tree) == (Evaluate(b("b1")), Synthesize(b("b2")))


def test_a_kernel_waits_for_those_before_it_to_be_written() -> None:
    tree = fold([opened(), *seeds_asked(2), proposed("b1"), proposed("b2"), written("b2", "// us 50")])
    assert ask(tree) == (Synthesize(b("b1")),)
    same = tree.apply(written("b1", "// us 50"))
    assert ask(same) == (Evaluate(b("b1")), Abandon(b("b2"), b("b1")))


def test_equal_kernels_are_judged_once_whichever_came_first() -> None:
    tree = round_one("// us 50", "// us 60")
    tree = fold(
        [
            RoundStarted(round=2),
            *(AgentAnswered(round=2, operator="refine", asked=2, given=given) for given in (1, 1, 1, 1)),
            *(proposed("b3", "b1", round=2), written("b3", "// us 60")),
            *(proposed("b4", "b1", round=2), written("b4", "// us 40")),
            *(proposed("b5", "b2", round=2), written("b5", "// us 40")),
        ],
        tree,
    )
    assert ask(tree) == (Abandon(b("b3"), b("b2")), Evaluate(b("b4")), Abandon(b("b5"), b("b4")))


def test_lessons_come_first_and_a_settled_round_ends() -> None:
    tree = fold([opened(), *seeds_asked(1), *done("b1", source="// us 50")[:3]])
    assert ask(tree) == (Reflect(b("b1")), EndRound(1))
    tree = fold([opened(), *seeds_asked(1), *done("b1", source="// us 50")])
    assert ask(tree) == (EndRound(1),)


def test_an_abandoned_branch_is_settled() -> None:
    tree = fold([opened(), *seeds_asked(1), proposed("b1"), BranchAbandoned(branch=b("b1"), reason="")])
    assert ask(tree) == (EndRound(1),)


def test_a_short_answer_is_made_up_from_other_parents() -> None:
    tree = fold([RoundStarted(round=2)], round_one("// us 50", "// us 60", crossover=0, rewrite=0))
    policy = {"crossover": 0, "rewrite": 0}
    assert ask(tree, **policy) == (
        Propose(2, "refine", (b("b1"),), 2),
        Propose(2, "refine", (b("b2"),), 2),
    )
    short = [
        AgentAnswered(round=2, operator="refine", parents=(b("b1"),), asked=2, given=0),
        AgentAnswered(round=2, operator="refine", parents=(b("b2"),), asked=2, given=0),
    ]
    tree = fold(short, tree)
    assert ask(tree, **policy) == (Propose(2, "rewrite", (b("b1"),), 4),)
    tree = tree.apply(AgentAnswered(round=2, operator="rewrite", parents=(b("b1"),), asked=4, given=0))
    assert ask(tree, **policy) == (Propose(2, "rewrite", (b("b2"),), 4),)
    tree = tree.apply(AgentAnswered(round=2, operator="rewrite", parents=(b("b2"),), asked=4, given=0))
    assert ask(tree, **policy) == (EndRound(2),)


def test_a_failing_reasoner_is_not_asked_for_more() -> None:
    failed = AgentAnswered(round=2, operator="refine", parents=(b("b1"),), asked=2, given=0, failed=True)
    tree = fold([RoundStarted(round=2), failed], round_one("// us 50", crossover=0, rewrite=0, parents=1))
    assert ask(tree, crossover=0, rewrite=0, parents=1) == (EndRound(2),)
    tree = tree.apply(RoundEnded(round=2, best=b("b1"), score=2.0))
    assert ask(tree) == (Stop("the reasoner failed"),)


# ------------------------------------------------------------------------------ repairs


def failed_twice() -> Tree:
    return fold([opened(), *seeds_asked(2), *done("b1", source="oops"), *done("b2", source="// wrong")])


def test_repairs_start_when_all_first_attempts_are_settled() -> None:
    tree = fold([opened(), *seeds_asked(2), *done("b1", source="oops"), proposed("b2")])
    assert ask(tree) == (Synthesize(b("b2")),)
    assert ask(failed_twice()) == (Repair((b("b1"),)), Repair((b("b2"),)))


def test_a_repair_is_written_judged_and_repaired_in_turn() -> None:
    tree = failed_twice().apply(proposed("b2.1", "b2", operator="repair"))
    assert ask(tree) == (Repair((b("b1"),)), Repair((b("b2"),)))
    tree = tree.apply(written("b2.1", "oops again"))
    assert ask(tree) == (Repair((b("b1"),)),)  # b2.1 waits: b1.1 may turn out to be the same kernel
    tree = fold(done("b1.1", "b1", source="// us 50", operator="repair"), tree)
    assert ask(tree) == (Evaluate(b("b2.1")),)
    lesson = LessonLearnt(branch=b("b2.1"), expected_factor=1.0, actual_factor=None, lesson="")
    tree = fold([judged("b2.1", "oops again"), lesson], tree)
    assert ask(tree) == (Repair((b("b2"), b("b2.1"))),)
    assert ask(tree, repairs=1) == (EndRound(1),)


def test_no_repair_for_the_suspect_the_pruned_the_given_up_or_beyond_the_budget() -> None:
    suspect = fold([opened(), *seeds_asked(1), *done("b1", source="// suspect")])
    assert ask(suspect) == (EndRound(1),)
    pruned = failed_twice().apply(BranchPruned(branch=b("b1"), by="person"))
    assert ask(pruned) == (Repair((b("b2"),)),)
    assert ask(failed_twice(), branches=3) == (Repair((b("b1"),)),)
    assert ask(failed_twice(), branches=2) == (EndRound(1),)
    none = [proposed("b1.1", "b1", operator="repair"), BranchAbandoned(branch=b("b1.1"), reason="")]
    assert ask(fold(none, failed_twice()), branches=3) == (Repair((b("b2"),)),)  # it cost nothing


# ------------------------------------------------------------------------------ the person


def edit(id: str = "e1", source: str = "// us 30") -> list[Event]:
    return [proposed(id, "b1", operator="edit"), written(id, source)]


def test_an_edit_is_judged_at_any_time_and_never_repaired() -> None:
    between = fold(edit(), round_one("// us 50"))
    assert ask(between, crossover=0, rewrite=0) == (
        Evaluate(b("e1")),
        StartRound(2),
        Propose(2, "refine", (b("b1"),), 4),
    )
    stopped = between.apply(SearchStopped(reason="enough", by="person"))
    assert ask(stopped) == (Evaluate(b("e1")),)
    assert ask(stopped.apply(judged("e1", "oops"))) == ()
    waiting = fold(edit(), round_one("// us 50", review="manual"))
    assert ask(waiting, review="manual") == (Evaluate(b("e1")), AskPerson("round 1 is done"))


def test_an_edit_equal_to_a_kernel_points_to_it() -> None:
    tree = fold(edit(source="// us 50"), round_one("// us 50"))
    assert ask(tree.apply(SearchStopped(reason=""))) == (Abandon(b("e1"), b("b1")),)


def test_a_pruned_branch_is_left_as_it_is_until_it_is_taken_back() -> None:
    tree = fold([opened(), *seeds_asked(1), proposed("b1"), BranchPruned(branch=b("b1"), by="person")])
    assert ask(tree) == (EndRound(1),)
    ended = tree.apply(RoundEnded(round=1, best=None, score=0.0))
    taken_back = ended.apply(BranchPruned(branch=b("b1"), by="person", undo=True))
    assert ask(taken_back)[0] == Synthesize(b("b1"))


def test_a_stop_ends_planning_and_a_request_goes_on_where_it_was() -> None:
    working = fold([opened(), *seeds_asked(1), proposed("b1")])
    stopped = working.apply(SearchStopped(reason="enough", by="person"))
    assert ask(stopped) == ()
    assert ask(stopped.apply(RoundsRequested(rounds=0, by="person"))) == ask(working)


def test_a_reviewed_search_asks_after_every_round() -> None:
    tree = round_one("// us 50", review="manual")
    assert ask(tree, review="manual") == (AskPerson("round 1 is done"),)
    tree = tree.apply(RoundsRequested(rounds=1, by="person"))
    assert ask(tree, review="manual")[0] == StartRound(2)


# ------------------------------------------------------------------------------ stopping


def test_it_stops_when_all_rounds_are_done() -> None:
    assert ask(round_one("// us 50", rounds=1)) == (Stop("1 round is done"),)


def test_it_stops_at_the_roofline_in_every_declared_case() -> None:
    at = "// us 10.2"  # the toy's floor is 10 us
    reason = "b1 reaches 95% of the roofline in every declared case"
    assert ask(round_one(at)) == (Stop(reason),)
    assert ask(round_one("// us 11"))[0] == StartRound(2)
    assert ask(round_one(at, review="manual"), review="manual") == (AskPerson(reason),)
    more = fold([SearchStopped(reason=reason), RoundsRequested(rounds=1, by="person")], round_one(at))
    assert ask(more)[0] == StartRound(2)  # the person's word wins
    again = fold([SearchStopped(reason=reason), RoundsRequested(rounds=0, by="person")], round_one(at))
    assert ask(again) == (Stop(reason),)


def test_it_stops_when_nothing_gets_better() -> None:
    tree = round_one("// us 50", rounds=9)
    for number, score in ((2, 2.01), (3, 2.019)):  # below the 1% that counts as better
        kept = proposed(f"b{number}", "b1", round=number)
        end = RoundEnded(round=number, best=b("b1"), score=score)
        tree = fold(
            [RoundStarted(round=number), kept, BranchAbandoned(branch=b(f"b{number}"), reason=""), end], tree
        )
    assert ask(tree, stagnant_rounds=2) == (Stop("no better kernel in 2 rounds"),)
    assert ask(tree, stagnant_rounds=3)[0] == StartRound(4)
    assert ask(tree, stagnant_rounds=2, improvement=0.001)[0] == StartRound(4)


def test_it_stops_when_the_budget_is_used() -> None:
    tree = round_one("// us 50", "// us 60", "oops")
    assert ask(tree, branches=3) == (Stop("the budget of 3 branches is used"),)
    assert sum(p.count for p in ask(tree, branches=5) if isinstance(p, Propose)) == 2


def test_wall_time_comes_in_as_data() -> None:
    tree = fold([opened(), RoundStarted(round=1), proposed("b1")])
    policy = Policy(seconds=60)
    assert decide(tree, policy, elapsed_s=59.9)[0] == Propose(1, "seed", (), 3)
    assert decide(tree, policy, elapsed_s=60.0) == (Stop("the time budget of 60 s is used"),)
    assert decide(tree, Policy(), elapsed_s=1e9)[0] == Propose(1, "seed", (), 3)


def test_it_stops_when_the_reasoner_has_run_dry() -> None:
    tree = fold([RoundStarted(round=2)], round_one("// us 50", crossover=0))
    while (command := ask(tree, crossover=0)[0]) != EndRound(2):
        assert isinstance(command, Propose)
        answer = AgentAnswered(
            round=2, operator=command.operator, parents=command.parents, asked=command.count, given=0
        )
        tree = tree.apply(answer)
    tree = tree.apply(RoundEnded(round=2, best=b("b1"), score=2.0))
    assert ask(tree, crossover=0) == (Stop("the reasoner has nothing more to propose"),)


@pytest.mark.parametrize("elapsed_s", [0.0, 100.0])
def test_a_stopped_search_stays_stopped(elapsed_s: float) -> None:
    tree = round_one("// us 50").apply(SearchStopped(reason="enough"))
    assert decide(tree, Policy(seconds=10), elapsed_s) == ()


# ------------------------------------------------------------------------------ dedup at proposal


def test_a_taken_technique_vector_is_not_admitted() -> None:
    old, new, free = card((("v", "1"),)), card((("v", "2"),)), card(())
    assert admit((old, new, new, free, free), taken=(old.vector,), count=9, most=9) == (new, free, free)
    assert admit((old, new, free), taken=(), count=2, most=2) == (old, new)


def test_what_is_recalled_comes_on_top_of_what_was_asked_for() -> None:
    one, two = card((("v", "1"),)), card((("v", "2"),))
    recalled = card((("v", "3"),)).model_copy(update={"recalled": True})
    assert admit((one, recalled, two), taken=(), count=1, most=2) == (one, recalled)
    assert admit((one, recalled, two), taken=(recalled.vector,), count=2, most=2) == (one, two)


def test_what_is_recalled_stays_within_the_budget() -> None:
    one, two = card((("v", "1"),)), card((("v", "2"),))
    recalled = card((("v", "3"),)).model_copy(update={"recalled": True})
    assert admit((one, two, recalled), taken=(), count=2, most=3) == (one, two, recalled)
    assert admit((one, two, recalled), taken=(), count=2, most=2) == (one, recalled)
    assert admit((one, two, recalled), taken=(), count=1, most=1) == (one,)
    assert admit((recalled,), taken=(), count=1, most=1) == (recalled,)
