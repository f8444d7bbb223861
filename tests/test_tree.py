from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import branch, judged, opened, proposed, written

from workbench.errors import SessionError
from workbench.events import (
    EVENT,
    AgentAnswered,
    AgentFailed,
    AgentSpoke,
    BaselinesFollowed,
    BranchAbandoned,
    BranchApproved,
    BranchProposed,
    BranchPruned,
    CardReviewSet,
    CardRewritten,
    CardsReleased,
    CaseTimed,
    Event,
    HintGiven,
    KernelProfiled,
    LessonLearnt,
    ModelAnswered,
    RoundEnded,
    RoundShaped,
    RoundsRequested,
    RoundStarted,
    Said,
    SearchStopped,
    StageEntered,
)
from workbench.model import BranchId, CaseTime, Digest, Profile, Stage
from workbench.node import natural_order
from workbench.tree import Tree, fold

B1 = BranchId("b1")

EVERY_KIND: tuple[Event, ...] = (
    opened(),
    RoundStarted(round=1),
    proposed("b1"),
    AgentAnswered(round=1, operator="seed", asked=3, given=1),
    written("b1", "// us 50"),
    BranchAbandoned(branch=B1, reason="none", duplicate_of=BranchId("b2")),
    StageEntered(branch=B1, stage="running"),
    judged("b1", "// us 50"),
    CaseTimed(branch=B1, time=CaseTime(case="a", source="measured", time_us=20.0, floor_us=10.0)),
    KernelProfiled(branch=B1, profile=Profile(case="a", source="counters", sentences=("told",))),
    BaselinesFollowed(branch=B1, times=(CaseTime(case="a", source="measured", time_us=20.0, floor_us=9.0),)),
    LessonLearnt(branch=B1, expected_factor=1.2, actual_factor=None, lesson="none"),
    RoundEnded(round=1, best=B1, score=2.0),
    BranchApproved(branch=B1, by="person"),
    BranchPruned(branch=B1, by="person", reason="too long"),
    HintGiven(text="use shared memory", by="person"),
    RoundsRequested(rounds=2, by="person"),
    RoundShaped(operators=("crossover",), width=3, by="person"),
    CardReviewSet(on=True, by="person"),
    CardRewritten(branch=B1, hypothesis=proposed("b1").branch.hypothesis, by="person"),
    CardsReleased(round=1, by="person"),
    SearchStopped(reason="enough"),
    AgentFailed(role="reasoner", message="no answer"),
    AgentSpoke(role="synthesizer", branch=BranchId("b1"), characters=12, tail="__global__ v"),
    ModelAnswered(
        id="b1/synthesizer/1",
        role="synthesizer",
        model="m",
        prompt="synthesizer-1",
        branch=BranchId("b1"),
        request=Digest("0"),
        messages=(Said(role="user", text="?"),),
        answer="!",
        cost_usd=0.25,
    ),
)
ABOUT_A_BRANCH = tuple(event for event in EVERY_KIND if "branch" in type(event).model_fields)


def test_the_examples_cover_every_kind_of_event() -> None:
    union = get_args(get_args(Event)[0])
    assert {type(event) for event in EVERY_KIND} == set(union)


@pytest.mark.parametrize("event", EVERY_KIND, ids=lambda event: event.kind)
def test_round_trip(event: Event) -> None:
    assert EVENT.validate_json(EVENT.dump_json(event)) == event


@given(st.text(), st.floats())
def test_round_trip_of_any_text_and_number(text: str, number: float) -> None:
    text = text.encode("utf-8", "replace").decode()
    lesson = LessonLearnt(branch=BranchId(text), expected_factor=number, actual_factor=number, lesson=text)
    line = EVENT.dump_json(lesson)
    assert b"\n" not in line  # one event a line
    assert repr(EVENT.validate_json(line)) == repr(lesson)  # NaN is not equal to itself


@pytest.mark.parametrize(
    "event", [e for e in ABOUT_A_BRANCH if not isinstance(e, BranchProposed)], ids=lambda event: event.kind
)
def test_an_unknown_branch_is_named(event: Event) -> None:
    with pytest.raises(SessionError, match=f"^{event.kind} names branch 'b1', which is not in the tree$"):
        Tree().apply(event)


def test_an_unknown_parent_is_named() -> None:
    with pytest.raises(SessionError, match="branch_proposed 'b4' names branch 'b1'"):
        Tree().apply(proposed("b4", "b1"))


def test_a_branch_has_one_meaning() -> None:
    tree = fold([proposed("b1")])
    assert tree.apply(proposed("b1")) == tree
    with pytest.raises(SessionError, match="'b1' is proposed twice"):
        tree.apply(proposed("b1", vector=()))


def test_every_event_applies_to_a_tree_that_knows_the_branch() -> None:
    tree = fold([proposed("b1")])
    for event in EVERY_KIND:
        late = isinstance(event, KernelProfiled | BaselinesFollowed)
        before = tree.apply(judged("b1", "// us 50")) if late else tree
        assert before.apply(event) != before or event == proposed("b1")


def test_a_journal_holds_one_session() -> None:
    with pytest.raises(SessionError, match="twice"):
        fold([opened(), opened()])


# ------------------------------------------------------------------------------ the fold

STORIES = st.lists(st.sampled_from([e for e in EVERY_KIND if e.kind != "session_opened"]), max_size=30).map(
    lambda events: [opened(), proposed("b1"), *events]
)


@given(STORIES, st.data())
def test_folding_in_two_parts_is_folding_at_once(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    assert fold(events[cut:], fold(events[:cut])) == fold(events)


def one_branch(number: int, source: str, parent: str | None) -> list[Event]:
    """All that happens to a branch, in its own order."""
    id = f"b{number}"
    stages: tuple[Stage, ...] = ("compiling", "running")
    return [
        proposed(id, *([parent] if parent else []), round=2),
        StageEntered(branch=BranchId(id), stage="writing"),
        written(id, source),
        *(StageEntered(branch=BranchId(id), stage=stage) for stage in stages),
        AgentFailed(role="checker", message=source),
        judged(id, source),
        LessonLearnt(branch=BranchId(id), expected_factor=1.0, actual_factor=1.0, lesson=id),
    ]


@given(st.lists(st.sampled_from(["// us 50", "// us 80", "oops"]), min_size=2, max_size=6), st.data())
@settings(max_examples=60)
def test_parallel_work_may_return_in_any_order(sources: list[str], data: st.DataObject) -> None:
    before = fold([opened(), RoundStarted(round=1), *one_branch(1, "// us 90", None), RoundStarted(round=2)])
    lanes = [one_branch(i, source, "b1") for i, source in enumerate(sources, start=2)]
    in_order = [event for lane in lanes for event in lane]
    turns = data.draw(st.permutations([i for i, lane in enumerate(lanes) for _ in lane]))
    queues = [iter(lane) for lane in lanes]
    mixed = [next(queues[turn]) for turn in turns]
    first, second = fold(in_order, before), fold(mixed, before)
    assert first == second
    assert list(first.nodes) == list(second.nodes)  # dicts compare equal whatever their order
    assert first.best() == second.best()


def test_ids_sort_as_people_count() -> None:
    ids = ["b10", "e1", "b2.1", "b2", "b2.10", "b2.2", "b1"]
    ordered = ["b1", "b2", "b2.1", "b2.2", "b2.10", "b10", "e1"]
    assert sorted(map(BranchId, ids), key=natural_order) == ordered


# ------------------------------------------------------------------------------ what it knows


def grown() -> Tree:
    """b1 and b2 are seeds; b3 and its repair b3.1 are under b1; b4 crosses b2 and b1."""
    return fold(
        [
            opened(),
            RoundStarted(round=1),
            *(proposed("b1"), written("b1", "// us 50"), judged("b1", "// us 50")),
            *(proposed("b2"), written("b2", "// us 40"), judged("b2", "// us 40")),
            RoundEnded(round=1, best=BranchId("b2"), score=2.5),
            RoundStarted(round=2),
            *(proposed("b3", "b1", round=2), written("b3", "oops"), judged("b3", "oops")),
            proposed("b3.1", "b3", round=2, operator="repair"),
            *(written("b3.1", "// us 20"), judged("b3.1", "// us 20")),
            *(proposed("b4", "b2", "b1", round=2), written("b4", "// us 40 "), judged("b4", "// us 40")),
        ]
    )


def test_the_shape_of_the_tree() -> None:
    tree = grown()
    assert tree.best() == "b3.1"
    assert tree.ranked() == ("b3.1", "b2", "b4", "b1")  # of equals the earlier first
    assert tree.roots() == ("b1", "b2")
    assert tree.children(BranchId("b1")) == ("b3",)
    assert tree.children(BranchId("b2")) == ("b4",)
    assert tree.chain(BranchId("b3.1")) == ("b3", "b3.1")
    assert tree.repair_of(BranchId("b3")) == "b3.1"
    assert tree.repair_of(BranchId("b1")) is None


def test_nothing_is_best_before_anything_passed() -> None:
    assert fold([proposed("b1"), judged("b1", "oops")]).best() is None


def test_pruning_reaches_all_below_and_can_be_undone() -> None:
    tree = grown().apply(BranchPruned(branch=B1, by="person", reason="too long"))
    assert [id for id in tree.nodes if tree.is_pruned(id)] == ["b1", "b3", "b3.1"]
    assert tree.frontier() == ("b2", "b4")
    assert tree.best() == "b3.1"  # pruned is not wrong: it only gets no more children
    again = tree.apply(BranchPruned(branch=B1, by="person", undo=True))
    assert again == grown()


def test_an_approval_is_for_one_round() -> None:
    tree = grown().apply(BranchApproved(branch=B1, by="person"))
    assert tree.nodes[B1].approved
    assert not tree.apply(BranchApproved(branch=B1, by="person", undo=True)).nodes[B1].approved
    later = tree.apply(RoundStarted(round=3))
    assert not later.nodes[B1].approved
    assert later.base is not None and later.base.nodes[B1].approved  # the plan still sees it


def test_hints_are_for_the_round_that_follows() -> None:
    tree = fold([HintGiven(text="a", by="p"), RoundStarted(round=1), HintGiven(text="b", by="p")])
    tree = tree.apply(HintGiven(text="c", by="p"))
    assert (tree.hint_for(1), tree.hint_for(2), tree.hint_for(3)) == ("a", "b\nc", "")


def test_a_stage_that_arrives_late_changes_nothing() -> None:
    tree = grown()
    assert tree.apply(StageEntered(branch=B1, stage="running")) == tree


def test_the_base_is_one_level_deep() -> None:
    tree = fold([RoundStarted(round=1), RoundStarted(round=2), RoundStarted(round=3)])
    assert tree.base is not None and tree.base.round == 2 and tree.base.base is None


# ------------------------------------------------------------------------------ the gate


def test_the_gate_of_a_reviewed_session() -> None:
    tree = fold([opened(review="manual")])
    assert (tree.gate, tree.rounds_allowed) == ("working", 1)
    tree = fold([RoundStarted(round=1), RoundEnded(round=1, best=None, score=0.0)], tree)
    assert tree.gate == "asking"
    tree = tree.apply(RoundsRequested(rounds=2, by="person"))
    assert (tree.gate, tree.rounds_allowed, tree.requested_until) == ("working", 3, 3)
    assert tree.apply(SearchStopped(reason="enough", by="person")).gate == "stopped"
    assert Tree().gate == "closed"


@pytest.mark.parametrize(
    ("rounds", "allowed", "until"),
    [(0, 3, 0), (1, 3, 2), (5, 6, 6)],
    ids=["goes on as planned", "one more", "more than planned"],
)
def test_a_request_lifts_a_stop(rounds: int, allowed: int, until: int) -> None:
    tree = fold([opened(rounds=3), RoundStarted(round=1), SearchStopped(reason="enough")])
    tree = tree.apply(RoundsRequested(rounds=rounds, by="person"))
    assert (tree.stopped, tree.rounds_allowed, tree.requested_until) == (None, allowed, until)


def test_a_branch_keeps_its_parents_vector_until_it_has_its_own() -> None:
    tree = fold([BranchProposed(branch=branch("b1", vector=(("a", "1"),)))])
    assert tree.nodes[B1].vector == (("a", "1"),)
    tree = tree.apply(written("b1", "x", vector=(("a", "2"),)))
    assert tree.nodes[B1].vector == (("a", "2"),)


def test_a_profile_replaces_what_the_evaluation_had() -> None:
    profile = Profile(case="a", source="counters", sentences=("68% of DRAM peak.",), bound="memory")
    before = [opened(), RoundStarted(round=1), proposed("b1"), written("b1", "// us 50")]
    early = fold([*before, KernelProfiled(branch=B1, profile=profile)])
    assert early.node(B1).evaluation is None
    after = fold([*before, judged("b1", "// us 50"), KernelProfiled(branch=B1, profile=profile)]).node(B1)
    assert after.evaluation is not None
    assert after.evaluation.profile == profile
    assert after.passed and after.stage == "done"


def test_baselines_that_follow_change_the_times_and_the_score() -> None:
    slow = CaseTime(case="a", source="measured", time_us=20.0, floor_us=10.0, baselines=(("eager", 60.0),))
    followed = slow.model_copy(update={"baselines": (("eager", 60.0), ("graph of eager", 30.0))})
    before = fold([proposed("b1"), written("b1", "// us 50"), judged("b1", "// us 50")])
    assert fold([proposed("b1"), BaselinesFollowed(branch=B1, times=(followed,))]).node(B1).evaluation is None
    after = before.apply(BaselinesFollowed(branch=B1, times=(slow,)))
    assert after.node(B1).score == pytest.approx(3.0)
    assert after.apply(BaselinesFollowed(branch=B1, times=(followed,))).node(B1).score == pytest.approx(1.5)


def test_a_first_time_is_shown_until_the_verdict() -> None:
    time = CaseTime(case="a", source="measured", time_us=20.0, floor_us=10.0)
    early = fold([proposed("b1"), written("b1", "// us 50"), CaseTimed(branch=B1, time=time)])
    assert early.node(B1).first_time == time and early.best() is None
    after = early.apply(judged("b1", "// us 50"))
    assert after.node(B1).first_time is None
    assert after.apply(CaseTimed(branch=B1, time=time)) == after
