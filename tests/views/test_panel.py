"""The widget without a browser: what is synced, what is sent, what a message does."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import story
from test_messages import Recorder

from workbench.errors import SessionError
from workbench.views.panel import SCRIPT, STATIC, Panel
from workbench.views.project import project


class Refusing(Recorder):
    """Steering of a session that is closed."""

    def approve(self, branch: str, undo: bool = False) -> None:
        raise SessionError("session is closed; resume it to go on")

    def edit(self, branch: str, source: str) -> str:
        raise SessionError("session is closed; resume it to go on")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    monkeypatch.setattr(Panel, "send", lambda self, content, buffers=None: messages.append(content))
    return messages


@pytest.fixture
def steering() -> Recorder:
    return Recorder()


@pytest.fixture
def panel(sent: list[dict[str, Any]], steering: Recorder) -> Iterator[Panel]:
    made = Panel(story.tree(1), steering, "key")
    yield made
    made.close()


def test_the_view_is_the_projection(panel: Panel) -> None:
    assert panel.view == project(story.tree(1))
    panel.show(story.tree(2))
    panel.flush()
    assert panel.view == project(story.tree(2))


def test_details_are_sent_once_and_again_only_when_they_change(
    panel: Panel, sent: list[dict[str, Any]]
) -> None:
    first = [message["branch"] for message in sent]
    assert first == ["b1", "b2", "b3", "b3.1"]
    sent.clear()
    panel.show(story.tree(1))
    panel.flush()
    assert sent == []
    panel.show(story.tree(2))
    panel.flush()
    again = [message["branch"] for message in sent]
    assert "b3.1" in again  # no longer the best
    assert "b3" not in again
    json.dumps(sent, allow_nan=False)


def test_the_browser_is_told_whether_an_edit_was_taken(sent: list[dict[str, Any]]) -> None:
    """Until then it keeps the text that somebody typed."""
    for steering, taken in ((Recorder(), True), (Refusing(), False)):
        panel = Panel(story.tree(1), steering, "key")
        sent.clear()
        panel._receive(panel, {"type": "edit", "branch": "b1", "source": "text"}, [])
        panel.close()
        assert [message["type"] for message in sent] == ["said", "edited"]
        assert sent[1] == {"type": "edited", "branch": "b1", "taken": taken}


def test_messages_steer_and_are_answered(
    panel: Panel, sent: list[dict[str, Any]], steering: Recorder
) -> None:
    sent.clear()
    panel._receive(panel, {"type": "approve", "branch": "b1"}, [])
    panel._receive(panel, {"type": "undo"}, [])
    panel._receive(panel, {"type": "select", "branch": "b2"}, [])
    assert steering.calls == [("approve", "b1", False), ("undo",)]
    assert sent[0] == {"type": "said", "text": "b1 is no longer pruned."}
    assert (sent[1]["type"], sent[1]["branch"]) == ("detail", "b2")


def test_questions_are_answered_and_nothing_is_recorded(
    panel: Panel, sent: list[dict[str, Any]], steering: Recorder
) -> None:
    sent.clear()
    panel._receive(panel, {"type": "check", "ticket": 7, "source": "undefined"}, [])
    panel._receive(panel, {"type": "differ", "branch": "b3.1", "against": "b1"}, [])
    panel._receive(panel, {"type": "differ", "branch": "b3.1", "against": "reference"}, [])
    panel._receive(panel, {"type": "compare", "branches": ["b1", "b2"]}, [])
    panel._receive(panel, {"type": "editor"}, [])
    assert steering.calls == []
    checked, differ, reference, comparison, editor = sent
    assert (checked["ticket"], checked["diagnostics"][0]["message"]) == (7, "undefined")
    assert {line["tag"] for line in differ["difference"]["lines"]} >= {"added", "removed"}
    assert "torch.softmax" in json.dumps(reference["difference"]["reference"])
    assert [row["id"] for row in comparison["comparison"]["branches"]] == ["b1", "b2"]
    assert len(editor["script"]) > 100_000


def test_of_a_large_session_only_the_newest_details_are_sent(
    sent: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workbench.views.panel.AT_ONCE", 2)
    panel = Panel(story.tree(1), Recorder())
    assert [message["branch"] for message in sent] == ["b3", "b3.1"]
    panel.close()


def test_a_fault_of_the_panel_is_shown_in_it(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise ValueError("no such shape")

    monkeypatch.setattr("workbench.views.panel.project", broken)
    panel.show(story.tree(2))
    panel.flush()
    assert "no such shape" in panel.failure


def test_nonsense_and_refusals_are_said_not_raised(sent: list[dict[str, Any]]) -> None:
    panel = Panel(story.tree(1), Refusing())
    sent.clear()
    panel._receive(panel, {"type": "nonsense"}, [])
    panel._receive(panel, {"type": "approve", "branch": "b1"}, [])
    panel._receive(panel, {"type": "select", "branch": "b99"}, [])
    assert [message["type"] for message in sent] == ["said"] * 3
    assert "closed" in sent[1]["text"]
    assert "b99" in sent[2]["text"]
    panel.close()


def test_readers_without_widgets_get_a_page_and_a_line(panel: Panel) -> None:
    bundle = panel._repr_mimebundle_()
    assert bundle is not None
    data = bundle[0]
    assert "application/vnd.jupyter.widget-view+json" in data
    assert "<script" not in data["text/html"]
    assert data["text/plain"].startswith("softmax: 4 branches")


def test_the_scripts_make_no_markup_of_words() -> None:
    text = (STATIC / SCRIPT).read_text()
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text
    assert len(text) < 40_000


def test_the_scripts_parse(tmp_path: Any) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the panel's scripts are not parsed here")
    path = tmp_path / "panel.mjs"
    path.write_text((STATIC / SCRIPT).read_text())
    subprocess.run([node, "--check", str(path)], check=True)
