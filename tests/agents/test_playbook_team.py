"""The offline team: answers its requests, wastes no slot, repairs by taking choices back, explains."""

import asyncio
import math
from typing import Any

import pytest
import torch

from tests.playbook.problems import problem_of
from workbench.agents.base import Attempt, ReasonRequest, RepairRequest, SynthesisRequest
from workbench.agents.playbook import playbook_team
from workbench.errors import AgentError
from workbench.model import (
    H100,
    Branch,
    BranchId,
    Check,
    CompileFailed,
    Crashed,
    Diagnostic,
    Difference,
    Digest,
    Draft,
    Evaluation,
    Hazard,
    Hypothesis,
    Kernel,
    LaunchFailed,
    Mismatch,
    Operator,
    Outcome,
    Passed,
    Problem,
    Suspect,
    TimedOut,
    Vector,
)
from workbench.playbook.rules.experience import Experience, Memory, experience_of
from workbench.playbook.techniques.table import TECHNIQUES, settled

TEAM = playbook_team()
MISALIGNED = Hazard(hazard="misaligned", case="a", line=3, message="m")
MESSAGE = Diagnostic(line=7, message="no such name")


@pytest.fixture(scope="module")
def problem() -> Problem:
    x = torch.empty(4096, 4096, device="meta")
    return problem_of(lambda t: torch.softmax(t["x"], 1), {"x": x}, "softmax")


def attempt(problem: Problem, vector: Vector, outcome: Outcome | None = None, technique: str = "") -> Attempt:
    card = Hypothesis(title="t", bottleneck="none", cause="c", fix="f", technique=technique, vector=vector)
    branch = Branch(id=BranchId("1"), round=1, operator="seed", hypothesis=card, author="playbook")
    draft = Draft(kernel=Kernel(source="k"), vector=settled(problem, vector))
    return Attempt(branch=branch, draft=draft, evaluation=outcome and judged(outcome))


def judged(outcome: Outcome, **more: Any) -> Evaluation:
    return Evaluation(kernel=Digest("k"), device="emulator", target="H100", outcome=outcome, **more)


def ask(
    problem: Problem, operator: Operator, *parents: Attempt, count: int = 2, **more: Any
) -> list[Hypothesis]:
    request = ReasonRequest(
        problem=problem, target=H100, operator=operator, parents=parents, count=count, **more
    )
    return list(asyncio.run(TEAM.reasoner.hypothesize(request)))


def test_seeds_then_children_fill_many_slots_without_repeats(problem: Problem) -> None:
    taken = [card.vector for card in ask(problem, "seed", count=3)]
    for operator in ("refine", "rewrite"):
        for _ in range(3):
            parent = attempt(problem, taken[-1], Passed())
            cards = ask(problem, operator, parent, taken=tuple(taken))  # type: ignore[arg-type]
            assert len(cards) == 2
            taken += [card.vector for card in cards]
    assert len(set(taken)) == len(taken) >= 15


def test_crossover_mixes_two_parents(problem: Problem) -> None:
    one = attempt(problem, (("row_cache", "registers"),), Passed())
    two = attempt(problem, (("vector_width", "4"), ("stream_hints", "on")), Passed())
    card = ask(problem, "crossover", one, two, count=1)[0]
    assert dict(card.vector)["row_cache"] == "registers"


def test_a_hint_comes_first(problem: Problem) -> None:
    parent = attempt(problem, (), Passed())
    cards = ask(problem, "refine", parent, count=1, hint="try streaming hints: stream_hints=on")
    assert cards[0].technique == "stream_hints"


def test_what_failed_goes_last(problem: Problem) -> None:
    parent = attempt(problem, (), Passed())
    first = ask(problem, "rewrite", parent, count=1)[0]
    failed = attempt(problem, first.vector, Crashed(case="a", message="m"), first.technique)
    second = ask(problem, "rewrite", parent, count=1, history=(failed,))[0]
    chosen = first.technique, dict(first.vector)[first.technique]
    assert (second.technique, dict(second.vector)[second.technique]) != chosen


def test_the_synthesizer_writes_the_vector_of_the_card(problem: Problem) -> None:
    card = ask(problem, "seed", count=3)[2]
    request = SynthesisRequest(problem=problem, target=H100, operator="seed", hypothesis=card)
    draft = asyncio.run(TEAM.synthesizer.synthesize(request))
    assert draft.vector == card.vector and "__global__" in draft.kernel.source
    wrong = card.model_copy(update={"vector": (("vektor", "4"),)})
    with pytest.raises(AgentError, match="vektor"):
        asyncio.run(TEAM.synthesizer.synthesize(request.model_copy(update={"hypothesis": wrong})))


@pytest.mark.parametrize(
    ("vector", "outcome", "name", "value"),
    [
        ((("fast_math", "on"),), Mismatch(case="a", message="m"), "fast_math", "off"),
        ((("single_pass", "on"),), Mismatch(case="a", message="m"), "single_pass", "off"),
        ((("row_cache", "shared"),), LaunchFailed(case="a", diagnostics=(MESSAGE,)), "row_cache", "reread"),
        ((("vector_width", "4"),), MISALIGNED, "vector_width", "1"),
        ((("row_cache", "registers"),), CompileFailed(stage="nvrtc", diagnostics=()), "row_cache", "reread"),
    ],
)  # fmt: skip
def test_repairs_take_one_choice_back(
    problem: Problem, vector: Vector, outcome: Outcome, name: str, value: str
) -> None:
    chain = (attempt(problem, vector, outcome),)
    draft = asyncio.run(TEAM.compiler.repair(RepairRequest(problem=problem, target=H100, chain=chain)))
    assert draft is not None and dict(draft.vector)[name] == value
    assert name in draft.note


def test_no_repair_where_no_choice_can_be_the_cause(problem: Problem) -> None:
    for outcome in (Mismatch(case="a", message="m"), Suspect(message="m")):
        request = RepairRequest(problem=problem, target=H100, chain=(attempt(problem, (), outcome),))
        assert asyncio.run(TEAM.compiler.repair(request)) is None


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Passed(), "Right on every check"),
        (Passed(not_covered=("3x5",)), "Not covered: 3x5"),
        (
            CompileFailed(stage="nvrtc", diagnostics=(MESSAGE,)),
            "CUDA compiler refuses it. Line 7: no such name",
        ),
        (LaunchFailed(case="3x5", diagnostics=(MESSAGE,)), "refuse this launch at 3x5"),
        (Hazard(hazard="race", case="a", line=4, message="Two threads write."), "Line 4: Two threads write."),
        (
            Hazard(hazard="race", case="a", line=4, message="line 4: two write (k)"),
            "Line 4: two write (k). Right",
        ),
        (Crashed(case="a", message="signal 11"), "signal 11"),
        (TimedOut(case="a", limit_s=10.0), "No end after 10 s"),
        (Suspect(message="timers disagree"), "timers disagree"),
    ],
)
def test_outcomes_are_explained(problem: Problem, outcome: Outcome, words: str) -> None:
    assert words in TEAM.checker.explain(problem, judged(outcome))


def test_a_pattern_says_where_it_is_wrong(problem: Problem) -> None:
    difference = Difference(max_abs=1.0, max_ratio=90.0, pattern="the last 3 columns")
    check = Check(case="a", inputs="normal", seed=0, differences=(difference,))
    outcome = Mismatch(case="a", message="Output 0 differs by 1.")
    text = TEAM.checker.explain(problem, judged(outcome, checks=(check,)))
    assert text == "Output 0 differs by 1. Wrong are the last 3 columns."


def found(technique: str, value: str, predicted: float, factor: float) -> tuple[Experience, ...]:
    return experience_of([(technique, value, predicted, factor)])


def test_what_a_choice_brought_in_this_search_moves_its_next_card(problem: Problem) -> None:
    parent = attempt(problem, (("vector_width", "4"), ("row_cache", "registers")))
    first, *_ = expected = ask(problem, "refine", parent, count=99)
    value = dict(first.vector)[first.technique]
    halved = found(first.technique, value, first.predicted_factor, first.predicted_factor / 2)
    after = ask(problem, "refine", parent, count=99, found=halved)
    titles = [card.title for card in after]
    assert titles[0] != first.title and sorted(titles) == sorted(card.title for card in expected)
    (card,) = (card for card in after if card.title == first.title)
    assert card.evidence[-1].startswith("in this search: ") and card.predicted_factor < first.predicted_factor


def test_a_choice_that_brought_nothing_waits_for_those_that_nobody_tried(problem: Problem) -> None:
    parent = attempt(problem, (("vector_width", "4"), ("row_cache", "registers")))
    first, *others = ask(problem, "refine", parent, count=99)
    value = dict(first.vector)[first.technique]
    tried = found(first.technique, value, first.predicted_factor, 1.0)
    after = [card.title for card in ask(problem, "refine", parent, count=99, found=tried)]
    refining = {card.title for card in others if not TECHNIQUES[card.technique].structural}
    assert all(after.index(title) < after.index(first.title) for title in refining)


def test_a_gain_as_predicted_leaves_its_card_where_it_was(problem: Problem) -> None:
    parent = attempt(problem, (("vector_width", "4"), ("row_cache", "registers")))
    first, *_ = ask(problem, "refine", parent, count=99)
    as_predicted = found(first.technique, dict(first.vector)[first.technique], 1.5, 1.5)
    after, *_ = ask(problem, "refine", parent, count=99, found=as_predicted)
    assert after.title == first.title and math.isclose(after.predicted_factor, first.predicted_factor)
    assert after.evidence[-1].startswith("in this search: ")


def test_this_search_counts_before_what_is_remembered_of_others(problem: Problem) -> None:
    parent = attempt(problem, (("vector_width", "4"), ("row_cache", "registers")))
    first, *_ = ask(problem, "refine", parent, count=99)
    value, factor = dict(first.vector)[first.technique], first.predicted_factor
    memory = Memory(techniques=found(first.technique, value, factor, 1.5 * factor))
    slower = found(first.technique, value, factor, factor / 1.5)
    both = ask(problem, "refine", parent, count=99, memory=memory, found=slower)
    assert both == ask(problem, "refine", parent, count=99, found=slower)
    assert both[0].title != first.title
