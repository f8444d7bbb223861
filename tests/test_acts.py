"""What a person did can be taken back, whatever it was, also after a resume."""

from __future__ import annotations

import pytest
from toy import judged, opened, proposed, written

from workbench.events import (
    BranchApproved,
    BranchPruned,
    CardReviewSet,
    CardRewritten,
    CardsReleased,
    Event,
    HintGiven,
    RoundEnded,
    RoundShaped,
    RoundsRequested,
    RoundStarted,
    SearchStopped,
)
from workbench.model import Branch, BranchId, Hypothesis
from workbench.tree import Tree, fold

B1, B2 = BranchId("b1"), BranchId("b2")
OTHER = Hypothesis(title="mine", bottleneck="memory", cause="", fix="float4")


def begun() -> Tree:
    """A round in flight: b1 judged, b2 still a card."""
    return fold(
        [opened(), RoundStarted(round=1), proposed("b1"), written("b1", "// us 50"), judged("b1", "// us 50"),
         proposed("b2")]
    )  # fmt: skip


WORDS: tuple[Event, ...] = (
    BranchApproved(branch=B1, by="person"),
    BranchPruned(branch=B1, by="person", reason="too long"),
    HintGiven(text="registers", by="person"),
    RoundsRequested(rounds=2, by="person"),
    RoundShaped(operators=("rewrite",), width=5, by="person"),
    CardReviewSet(on=True, by="person"),
    CardRewritten(branch=B2, hypothesis=OTHER, by="person"),
    SearchStopped(reason="enough", by="person"),
)


@pytest.mark.parametrize("word", WORDS, ids=lambda event: event.kind)
def test_every_word_can_be_taken_back(word: Event) -> None:
    after = begun().apply(word)
    assert after != begun()
    assert after.acts[-1].by == "person"
    inverse = after.acts[-1].inverse
    assert inverse is not None
    back = after.apply(inverse)
    assert back == begun()
    assert back.acts == ()
    assert [deed.by for deed in back.deeds] == ["person", "person"]


def test_an_edit_taken_back_is_pruned_and_that_is_not_a_new_act() -> None:
    edit = Branch(id=BranchId("e1"), parents=(B1,), round=1, operator="edit", hypothesis=OTHER, author="ada")
    tree = begun().apply(proposed("b3").model_copy(update={"branch": edit}))
    assert (tree.acts[-1].words, tree.acts[-1].by) == ("wrote e1: mine", "ada")
    assert tree.acts[-1].inverse is not None
    back = tree.apply(tree.acts[-1].inverse)
    assert back.is_pruned(edit.id)
    assert back.acts == ()


def test_a_toggle_clicked_twice_is_no_act_and_the_order_does_not_matter() -> None:
    approve, hint = BranchApproved(branch=B1, by="a"), HintGiven(text="x", by="a")
    off = approve.model_copy(update={"undo": True, "by": "b"})
    tree = fold([approve, hint, off], begun())
    assert [act.words for act in tree.acts] == ["hinted: x"]


def test_what_a_round_has_used_can_no_longer_be_taken_back() -> None:
    asked = (BranchApproved(branch=B1, by="p"), HintGiven(text="x", by="p"), RoundShaped(width=2, by="p"))
    prune = BranchPruned(branch=B1, by="p")
    tree = fold([*asked, prune], begun())
    assert len(tree.acts) == 4
    tree = fold([RoundEnded(round=1, best=B1, score=1.0), RoundStarted(round=2)], tree)
    assert [act.words for act in tree.acts] == ["pruned b1"]
    assert tree.shape is None


def test_a_card_can_be_rewritten_until_its_kernel_is_written() -> None:
    tree = begun().apply(CardRewritten(branch=B2, hypothesis=OTHER, by="p"))
    assert tree.nodes[B2].branch.hypothesis == OTHER
    tree = tree.apply(written("b2", "// us 40"))
    assert tree.acts == ()
    late = tree.apply(CardRewritten(branch=B2, hypothesis=proposed("b1").branch.hypothesis, by="p"))
    assert late.nodes[B2].branch.hypothesis == OTHER


def test_cards_are_held_until_they_are_released() -> None:
    tree = begun().apply(CardReviewSet(on=True, by="p"))
    assert (tree.gate, tree.unwritten()) == ("reviewing", (B2,))
    assert tree.apply(BranchPruned(branch=B2, by="p")).gate == "working"
    released = tree.apply(CardsReleased(round=1, by="p"))
    assert released.gate == "working"
    assert released.acts[-1].words == "reads the cards first"


def test_rounds_that_have_not_begun_can_be_withdrawn() -> None:
    more = RoundsRequested(rounds=3, by="p")
    allowed = begun().rounds_allowed
    tree = begun().apply(more)
    assert tree.rounds_allowed == allowed + 3
    back = tree.apply(more.model_copy(update={"undo": True}))
    assert (back.rounds_allowed, back.requested_until) == (allowed, begun().requested_until)
