"""What stays in a notebook's output: the panel while it lives, a page without scripts afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import story
from test_messages import Recorder

from workbench.devices.usage import Usage
from workbench.events import SearchStopped
from workbench.tree import Tree
from workbench.views import notebook
from workbench.views.notebook import Shown
from workbench.views.panel import Panel


class Live(Recorder):
    """A session whose tree is set by the test."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self.tree = tree
        self.folder = Path("no folder")
        self.seen: Usage | None = None
        self.listeners: list[Callable[[Tree], None]] = []
        self.failures: list[Callable[[str], None]] = []
        self.closers: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[Tree], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        listener(self.tree)
        return lambda: self.listeners.remove(listener)

    def usage(self) -> Usage | None:
        return self.seen

    def at_note(self, tell: Callable[[str], None]) -> None:
        tell("tracing the reference")

    def at_failure(self, tell: Callable[[str], None]) -> None:
        self.failures.append(tell)

    def at_close(self, act: Callable[[], None]) -> None:
        self.closers.append(act)


@pytest.fixture
def outputs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The cell's outputs by what follows the session's own id: ``""`` and ``snapshot``."""
    seen: dict[str, Any] = {}

    def put(shown: Any, *, display_id: str, raw: bool = False) -> None:
        seen[display_id.removeprefix("workbench-").partition("-")[2]] = shown

    monkeypatch.setattr(notebook, "display", put)
    monkeypatch.setattr(notebook, "update_display", put)
    monkeypatch.setattr(notebook, "in_notebook", lambda: True)
    monkeypatch.setattr(Panel, "send", lambda self, content, buffers=None: None)
    return seen


def test_a_panel_lives_beside_a_hidden_snapshot(outputs: dict[str, Any]) -> None:
    live = Live(story.tree(2))
    shown = Shown(live)
    panel = outputs[""]
    assert isinstance(panel, Panel)
    assert panel.busy == "tracing the reference"
    for listener in live.listeners:
        listener(story.tree(2).apply(SearchStopped(reason="all rounds are done")))
    shown._snapshots.flush()
    assert f'id="{panel.key}-snapshot"' in outputs["snapshot"]["text/html"]
    assert "all rounds are done" in outputs["snapshot"]["text/html"]
    shown.freeze()


def test_closing_freezes_the_panel_once(outputs: dict[str, Any]) -> None:
    live = Live(story.tree(2))
    Shown(live)
    for close in live.closers:
        close()
        close()
    assert outputs[""]["text/plain"].startswith("softmax: 8 branches, 4 correct")
    assert "<svg" in outputs[""]["text/html"] and "<script" not in outputs[""]["text/html"]
    assert outputs["snapshot"]["text/html"] == ""
    assert live.listeners == []


def test_the_gpu_is_watched_until_the_panel_is_frozen(outputs: dict[str, Any]) -> None:
    live = Live(story.tree(2))
    live.seen = Usage(
        card="H100", index=1, in_hand=2, used_bytes=3 * 10**9, total_bytes=85 * 10**9, busy_percent=97
    )
    shown = Shown(live)
    panel = outputs[""]
    told = threading.Event()
    panel.observe(lambda _: told.set(), "usage")
    assert panel.usage or told.wait(20)
    assert panel.usage["words"] == "GPU 1, H100: 2 in hand · 3.0 of 85 GB in use · busy 97% of the time"
    shown.freeze()
    watchers = [thread for thread in threading.enumerate() if thread.name == "workbench-usage"]
    for thread in watchers:
        thread.join(20)
    assert not any(thread.is_alive() for thread in watchers)


def test_a_problem_that_cannot_be_opened_leaves_its_reason(outputs: dict[str, Any]) -> None:
    live = Live(Tree())
    Shown(live)
    live.failures[0]("line 4: <b>no</b>")
    assert outputs[""]["text/plain"] == "line 4: <b>no</b>"
    assert "line 4: &lt;b&gt;no&lt;/b&gt;" in outputs[""]["text/html"]


def test_a_search_that_fails_keeps_its_tree(outputs: dict[str, Any]) -> None:
    live = Live(story.tree(2))
    shown = Shown(live)
    live.failures[0]("the disk is full")
    assert outputs[""].failure == "the disk is full"
    shown.freeze()
    assert "the disk is full" in outputs[""]["text/html"]
    assert "<svg" in outputs[""]["text/html"]


def test_without_a_notebook_it_is_a_line_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Shown(Live(story.tree(2)))
    shown.freeze()
    assert capsys.readouterr().out.startswith("softmax: 8 branches")
