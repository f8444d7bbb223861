"""How far and how long: medians of this session's stages, laid on what is left."""

from __future__ import annotations

import pytest
import story

from workbench.devices.usage import Usage
from workbench.events import BranchProposed, RoundStarted, SearchStopped, StageEntered
from workbench.model import Branch, BranchId
from workbench.tree import Tree, fold
from workbench.views.phrases import short_duration_text
from workbench.views.progress import progress_json, usual_s
from workbench.views.usage import usage_json

BRANCH = Branch(
    id=BranchId("b1"), parents=(), round=1, operator="seed",
    hypothesis=story.card("One block a row", "items", (), 1.0), author="playbook",
)  # fmt: skip


def with_one_at(stage: str) -> Tree:
    """The story after its second round, with one more branch at a stage."""
    branch = Branch(
        id=BranchId("b20"), parents=(BranchId("b4"),), round=3, operator="refine",
        hypothesis=story.card("One more", "items", (), 1.1), author="playbook",
    )  # fmt: skip
    tree = story.tree(2).apply(RoundStarted(round=3)).apply(BranchProposed(branch=branch))
    return tree.apply(StageEntered(branch=branch.id, stage=stage))  # type: ignore[arg-type]


def test_a_stage_takes_what_it_usually_took() -> None:
    assert usual_s(story.tree(2)) == {"writing": 0.0, "compiling": 0.25, "running": 1.75}
    assert usual_s(story.tree(0)) == {}
    assert progress_json(story.tree())["usual"] == "usually 0.2 s compiling, 1.8 s running"


def test_nothing_is_promised_before_anything_was_judged() -> None:
    found = progress_json(story.tree(0))
    assert found["eta_s"] is None and found["usual"] == ""


def test_before_enough_was_judged_earlier_sessions_say_how_long() -> None:
    first = story.events(0)[0].model_copy(update={"usual": (("compiling", 2.0), ("running", 30.0))})
    tree = fold([first, *story.events(0)[1:]])
    running = tree.apply(RoundStarted(round=1)).apply(BranchProposed(branch=BRANCH))
    found = progress_json(running.apply(StageEntered(branch=BRANCH.id, stage="running")))
    assert found["usual"] == "in earlier sessions 30 s running"
    assert found["eta_s"] and "left" in found["words"]


def test_then_this_session_does() -> None:
    first = story.events(0)[0].model_copy(update={"usual": (("compiling", 2.0), ("running", 30.0))})
    tree = fold([first, *story.events()[1:]])
    assert progress_json(tree) == progress_json(story.tree())


def test_a_kernel_of_ones_own_is_counted_when_the_search_is_over() -> None:
    over = story.tree(2).apply(SearchStopped(reason="3 rounds are done"))
    assert progress_json(over)["words"].startswith("8 of 8 ")
    own = BRANCH.model_copy(update={"id": BranchId("e1"), "operator": "edit", "author": "person"})
    one_more = over.apply(BranchProposed(branch=own))
    assert progress_json(one_more)["words"].startswith("8 of 9 branches judged · ")
    running = progress_json(one_more.apply(StageEntered(branch=own.id, stage="running")))
    assert running["eta_s"] == 0.9  # half of 1.75 s: nothing else runs beside it, whatever may


def test_a_branch_further_on_leaves_less() -> None:
    left = [progress_json(with_one_at(stage))["eta_s"] for stage in ("waiting", "compiling", "running")]
    assert left == sorted(left, reverse=True) and len(set(left)) == 3


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.02, "0.1 s"), (0.5, "0.5 s"), (12.4, "12 s"), (200.0, "3 min")]
)
def test_short_durations(seconds: float, words: str) -> None:
    assert short_duration_text(seconds) == words


@pytest.mark.parametrize(
    ("usage", "words", "tone"),
    [
        (Usage(card="H100", index=0), "GPU 0, H100: idle", "quiet"),
        (Usage(card="", index=2, in_hand=1), "GPU 2, being opened: 1 in hand", "busy"),
        (
            Usage(card="H100", index=0, baselines_left=1),
            "GPU 0, H100: timing slow baselines, 1 case left",
            "busy",
        ),
    ],
)
def test_the_gpu_in_words(usage: Usage, words: str, tone: str) -> None:
    assert usage_json(usage) == {"words": words, "tone": tone}
