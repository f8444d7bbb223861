import pytest
from toy import judged, opened, proposed, written

from workbench.agents.reflection import reflect
from workbench.events import Event
from workbench.model import BranchId, Operator, Vector
from workbench.tree import Tree, fold

# Every card of these tests predicts 1.25x; the baseline takes 100 us.


def node(id: str, *parents: str, source: str, operator: Operator | None = None) -> list[Event]:
    return [proposed(id, *parents, operator=operator), written(id, source), judged(id, source)]


def tree() -> Tree:
    return fold(
        [
            opened(),
            *node("b1", source="// us 50"),
            *node("b2", source="// us 40"),
            *node("b3", "b1", source="// us 40"),
            *node("b4", "b1", source="// us 48"),
            *node("b5", "b1", source="// us 20"),
            *node("b6", "b1", "b2", source="// us 20"),
            *node("b7", "b1", source="oops"),
            *node("b7.1", "b7", source="// us 40", operator="repair"),
            *node("b8", "b7", source="// us 20"),
            *node("b9", source="// wrong"),
            *node("b10", source="// suspect"),
            *node("b11", "b1", "b2", source="// us 45"),
        ]
    )


@pytest.mark.parametrize(
    ("id", "factor", "words"),
    [
        ("b1", 2.0, "more than expected, 1.25x predicted, 2.00x found over the fastest baseline"),
        ("b3", 1.25, "as expected, 1.25x predicted, 1.25x found over b1 (by the model); now memory-bound"),
        ("b4", 50 / 48, "less than expected, 1.25x predicted, 1.04x found over b1"),
        ("b5", 2.5, "more than expected"),
        ("b6", 2.0, "2.00x found over b2"),  # of two parents the better one is to be beaten
        ("b11", 40 / 45, "; slower than its parents at 8, 45 us against 40 by b2"),
        ("b7", None, "does not compile (line 1: no time given)"),
        ("b7.1", 1.25, "1.25x found over b1"),  # a repair is measured against what it was to improve
        ("b8", None, "correct, but there is no time to compare"),
        ("b9", None, "mismatch (all of it is wrong)"),
        ("b10", None, "suspect (too good)"),
    ],
)
def test_a_lesson_sets_prediction_and_finding_side_by_side(id: str, factor: float | None, words: str) -> None:
    lesson = reflect(tree(), BranchId(id))
    assert (lesson.branch, lesson.expected_factor) == (id, 1.25)
    assert lesson.actual_factor == (None if factor is None else pytest.approx(factor))
    assert words in lesson.lesson
    assert lesson.lesson.startswith("card: ")


def test_only_a_kernel_of_several_parents_is_held_against_each_of_them() -> None:
    assert "its parents" not in reflect(tree(), BranchId("b4")).lesson
    assert "its parents" not in reflect(tree(), BranchId("b6")).lesson


def test_a_measured_time_over_a_modelled_one_is_no_factor() -> None:
    before = tree()
    event = judged("b3", "// us 40")
    times = tuple(t.model_copy(update={"source": "measured"}) for t in event.evaluation.times)
    measured = event.model_copy(update={"evaluation": event.evaluation.model_copy(update={"times": times})})
    events = [
        opened(),
        *node("b1", source="// us 50"),
        proposed("b3", "b1"),
        written("b3", "// us 40"),
        measured,
    ]
    assert reflect(before, BranchId("b3")).actual_factor == pytest.approx(1.25)
    assert reflect(fold(events), BranchId("b3")).actual_factor is None


def by_rules() -> Event:
    return opened().model_copy(update={"brain": "playbook"})


def seed_with_vector(id: str, vector: Vector, us: int) -> list[Event]:
    card = proposed(id)
    branch = card.branch.model_copy(
        update={"hypothesis": card.branch.hypothesis.model_copy(update={"vector": vector})}
    )
    draft = written(id, f"// us {us}")
    return [
        card.model_copy(update={"branch": branch}),
        draft.model_copy(update={"draft": draft.draft.model_copy(update={"vector": vector})}),
        judged(id, f"// us {us}"),
    ]


def test_a_seed_is_held_against_what_its_prediction_is_over() -> None:
    naive, other = (("fusion", "none"),), (("fusion", "all"),)
    grown = fold([by_rules(), *seed_with_vector("b1", naive, 200), *seed_with_vector("b2", other, 160)])
    lesson = reflect(grown, BranchId("b2"))
    assert lesson.actual_factor == pytest.approx(1.25)
    assert "as expected, 1.25x predicted, 1.25x found over one kernel an operation (b1)" in lesson.lesson


def test_two_bases_are_named_where_only_one_is_known() -> None:
    grown = fold([by_rules(), *seed_with_vector("b2", (("fusion", "all"),), 160)])
    lesson = reflect(grown, BranchId("b2")).lesson
    assert "1.25x predicted over one kernel an operation, 0.62x found over the fastest baseline" in lesson
    assert "expected" not in lesson
