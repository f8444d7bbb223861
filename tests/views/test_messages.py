"""What the browser may say: checked, then passed on."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.model import CompileFailed, Diagnostic
from workbench.views.messages import SOURCE_LIMIT, carry_out, read_message


class Recorder:
    """Steering that only remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def approve(self, branch: str, undo: bool = False) -> None:
        self.calls.append(("approve", branch, undo))

    def prune(self, branch: str, reason: str = "", undo: bool = False) -> None:
        self.calls.append(("prune", branch, undo))

    def undo(self) -> str:
        self.calls.append(("undo",))
        return "b1 is no longer pruned."

    def edit(self, branch: str, source: str) -> str:
        self.calls.append(("edit", branch, source))
        return "e1"

    def shape(self, operators: tuple[str, ...] = (), width: int | None = None) -> None:
        self.calls.append(("shape", operators, width))

    def review_cards(self, on: bool = True) -> None:
        self.calls.append(("review_cards", on))

    def rewrite(self, branch: str, title: str, fix: str, choices: dict[str, str] | None = None) -> None:
        self.calls.append(("rewrite", branch, title, fix, choices))

    def release_cards(self) -> None:
        self.calls.append(("release_cards",))

    def check(self, source: str, tell: Any) -> None:
        tell(CompileFailed(stage="nvrtc", diagnostics=(Diagnostic(line=3, message=source),)))

    def hint(self, text: str) -> None:
        self.calls.append(("hint", text))

    def next_round(self, rounds: int = 1) -> None:
        self.calls.append(("next_round", rounds))

    def stop(self) -> None:
        self.calls.append(("stop",))


@pytest.mark.parametrize(
    ("content", "call"),
    [
        ({"type": "approve", "branch": "b1"}, ("approve", "b1", False)),
        ({"type": "approve", "branch": "b1", "undo": True}, ("approve", "b1", True)),
        ({"type": "prune", "branch": "b2"}, ("prune", "b2", False)),
        ({"type": "undo"}, ("undo",)),
        ({"type": "edit", "branch": "b1", "source": "x"}, ("edit", "b1", "x")),
        ({"type": "hint", "text": "registers"}, ("hint", "registers")),
        ({"type": "rounds", "rounds": 3}, ("next_round", 3)),
        ({"type": "stop"}, ("stop",)),
        ({"type": "shape", "operators": ["rewrite"], "width": 4}, ("shape", ("rewrite",), 4)),
        ({"type": "review_cards", "on": True}, ("review_cards", True)),
        ({"type": "release_cards"}, ("release_cards",)),
        (
            {"type": "rewrite", "branch": "b1", "title": "t", "choices": {"a": "b"}},
            ("rewrite", "b1", "t", "", {"a": "b"}),
        ),
    ],
)
def test_a_message_becomes_an_action(content: dict[str, Any], call: tuple[Any, ...]) -> None:
    recorder = Recorder()
    message = read_message(content)
    assert not isinstance(message, str)
    carry_out(message, recorder)
    assert recorder.calls == [call]


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"type": "format_disk"},
        {"type": "approve"},
        {"type": "approve", "branch": 7},
        {"type": "approve", "branch": "b1", "by": "someone else"},
        {"type": "rounds", "rounds": 0},
        {"type": "rounds", "rounds": 10**9},
        {"type": "hint", "text": ""},
        {"type": "shape", "operators": ["guess"]},
        {"type": "shape", "width": 21},
        {"type": "compare", "branches": ["b1"]},
        {"type": "compare", "branches": ["b1", "b2", "b3", "b4", "b5"]},
        {"type": "rewrite", "branch": "b1", "title": ""},
        {"type": "edit", "branch": "b1", "source": "x" * (SOURCE_LIMIT + 1)},
    ],
)
def test_anything_else_is_refused_in_one_line(content: Any) -> None:
    refused = read_message(content)
    assert isinstance(refused, str)
    assert "\n" not in refused
    assert len(refused) < 400
