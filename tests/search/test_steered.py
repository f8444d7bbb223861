"""The person's choices for a round: which operators, how wide, and cards read before they are written."""

from __future__ import annotations

from toy import judged, opened, proposed, written

from workbench.events import (
    AgentAnswered,
    BranchPruned,
    CardReviewSet,
    CardsReleased,
    Event,
    RoundEnded,
    RoundShaped,
    RoundStarted,
)
from workbench.model import BranchId
from workbench.policy import Policy
from workbench.search import AskPerson, EndRound, Synthesize, decide
from workbench.search.plan import plan_round
from workbench.tree import Tree, fold

POLICY = Policy(rounds=4)


def after_one_round(*more: Event) -> Tree:
    events: list[Event] = [opened(), RoundStarted(round=1)]
    for id, us in (("b1", 50), ("b2", 40)):
        events += [proposed(id), written(id, f"// us {us}"), judged(id, f"// us {us}")]
    return fold([*events, RoundEnded(round=1, best=BranchId("b2"), score=2.0), *more])


def cards(*more: Event) -> Tree:
    """A round of two cards, all answered, that the person wants to read."""
    answer = AgentAnswered(round=1, operator="seed", asked=2, given=2)
    start = (opened(), CardReviewSet(on=True, by="p"), RoundStarted(round=1))
    return fold([*start, proposed("b1"), proposed("b2"), answer, *more])


def test_the_person_chooses_operators_and_width() -> None:
    tree = after_one_round(RoundShaped(operators=("rewrite",), width=6, by="p"))
    asks = plan_round(tree, POLICY)
    assert {ask.operator for ask in asks} == {"rewrite"}
    assert sum(ask.count for ask in asks) == 6
    crossed = after_one_round(RoundShaped(operators=("crossover",), width=1, by="p"))
    assert [ask.operator for ask in plan_round(crossed, POLICY)] == ["crossover"]


def test_the_choice_is_for_one_round() -> None:
    shape = RoundShaped(operators=("rewrite",), width=1, by="p")
    begun = after_one_round(shape, RoundStarted(round=2))
    assert begun.base is not None
    assert plan_round(begun.base, POLICY) == plan_round(after_one_round(shape), POLICY)
    assert plan_round(begun, POLICY) != plan_round(begun.base, POLICY)


def test_cards_wait_for_the_person() -> None:
    policy = Policy(seeds=2)
    (command,) = decide(cards(), policy)
    assert isinstance(command, AskPerson)
    released = decide(cards(CardsReleased(round=1, by="p")), policy)
    assert released == (Synthesize(BranchId("b1")), Synthesize(BranchId("b2")))


def test_a_struck_card_is_never_written_and_striking_all_ends_the_round() -> None:
    policy = Policy(seeds=2)
    strike = [BranchPruned(branch=BranchId(id), by="p", reason="struck") for id in ("b1", "b2")]
    one = decide(cards(strike[0], CardsReleased(round=1, by="p")), policy)
    assert one == (Synthesize(BranchId("b2")),)
    assert decide(cards(*strike), policy) == (EndRound(1),)
