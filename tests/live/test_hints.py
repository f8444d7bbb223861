"""What becomes of a hint is said at once."""

from __future__ import annotations

from pathlib import Path

import doubles
import pytest

from workbench.devices.null import NullDevice
from workbench.errors import SessionError
from workbench.live import optimize
from workbench.live.hints import hint_words
from workbench.policy import Policy


@pytest.mark.parametrize(
    ("text", "brain", "told"),
    [
        ("use fewer threads, please", "playbook", "reads 'threads' alone"),
        ("vector_width=4", "playbook", "cards about vector_width"),
        ("make it quick!", "playbook", "reads none of it"),
        ("make it quick!", "reasoner=llm,synthesizer=playbook", "llm is given these words"),
        ("row_cache", "reasoner=playbook,synthesizer=llm", "cards about"),
        ("row_cache", "replay:/some/where", "no hint changes it"),
    ],
)
def test_what_a_brain_makes_of_a_hint(text: str, brain: str, told: str) -> None:
    assert told in hint_words(text, brain) and "\n" not in hint_words(text, brain)


def test_a_session_answers_and_refuses_an_empty_hint(tmp_path: Path) -> None:
    with optimize(doubles.problem(), Policy(rounds=0), NullDevice(), doubles.team(), tmp_path / "s") as live:
        assert "scripted is given these words" in live.hint("hurry")
        for empty in ("", "  \n"):
            with pytest.raises(SessionError, match="an empty hint says nothing"):
                live.hint(empty)
            with pytest.raises(SessionError, match="an empty text is no kernel"):
                live.edit(None, empty)
        assert [hint.text for hint in live.tree.hints] == ["hurry"] and not live.tree.nodes
