"""The panel in the notebook: shown live, frozen into script-free HTML at the end.

A saved widget without its kernel shows nothing, so a snapshot lies beside it: hidden while the panel
lives, seen when the notebook is opened again. Imports the widget stack; nothing else here does.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from IPython.core.getipython import get_ipython
from IPython.display import display, update_display

from workbench.devices.usage import Usage
from workbench.tree import Tree
from workbench.views.interrupt import forget, stop_at_interrupt
from workbench.views.messages import Steering
from workbench.views.panel import Panel
from workbench.views.report import summary_text, to_fragment
from workbench.views.throttle import Throttle
from workbench.views.usage import usage_json

WATCH_S = 2.0
"""Time between two looks at the GPU."""
SNAPSHOT_S = 2.0
"""Least time between two snapshots: each is tens of kilobytes in the notebook."""


class Watched(Steering, Protocol):
    """A running session, as far as its output needs it."""

    @property
    def tree(self) -> Tree: ...
    @property
    def folder(self) -> Path: ...
    def subscribe(self, listener: Callable[[Tree], None]) -> Callable[[], None]: ...
    def usage(self) -> Usage | None: ...
    def at_note(self, tell: Callable[[str], None]) -> None: ...
    def at_failure(self, tell: Callable[[str], None]) -> None: ...
    def at_close(self, act: Callable[[], None]) -> None: ...


class Shown:
    """One session's output in a notebook cell; in a shell without a notebook, a line of text."""

    def __init__(self, live: Watched) -> None:
        self._live = live
        self._id = f"workbench-{uuid.uuid4().hex[:12]}"
        self._panel: Panel | None = None
        self._gate = ""
        self._failure = ""
        if not in_notebook():
            print(summary_text(live.tree))
            return
        self._panel = Panel(live.tree, live, self._id, live.folder)
        self._snapshots: Throttle[Tree] = Throttle(self._snapshot, SNAPSHOT_S)
        display(self._panel, display_id=self._id)
        display(_page("", ""), raw=True, display_id=f"{self._id}-snapshot")
        self._unsubscribe = live.subscribe(self._show)
        self._frozen = threading.Event()
        if live.usage() is not None:
            threading.Thread(target=self._watch, name="workbench-usage", daemon=True).start()
        live.at_note(self._panel.note)
        live.at_failure(self._fail)
        live.at_close(self.freeze)
        stop_at_interrupt(getattr(get_ipython(), "kernel", None), live)

    def _show(self, tree: Tree) -> None:
        if self._panel is not None:
            self._panel.show(tree)
        if tree.gate != self._gate:
            self._gate = tree.gate
            self._snapshots.offer(tree)

    def _watch(self) -> None:
        """Show what the GPU is doing, every other second, until the panel is frozen."""
        while not self._frozen.is_set():
            usage, panel = self._live.usage(), self._panel
            if panel is not None and usage is not None:
                panel.usage = usage_json(usage)
            self._frozen.wait(WATCH_S)

    def _fail(self, text: str) -> None:
        self._failure = text
        if self._live.tree.opened is None:
            # Nothing was begun: there is nothing to steer, and the reason belongs into the notebook.
            self.freeze()
        elif self._panel is not None:
            self._panel.fail(text)
            self._snapshots.offer(self._live.tree)

    def _snapshot(self, tree: Tree) -> None:
        html = f'<div id="{self._id}-snapshot">{to_fragment(tree, self._failure)}</div>'
        update_display(_page(html, ""), raw=True, display_id=f"{self._id}-snapshot")

    def freeze(self) -> None:
        """Put the last state in the panel's place, for good; idempotent."""
        if self._panel is None:
            return
        forget(self._live)
        self._frozen.set()
        self._unsubscribe()
        self._snapshots.cancel()
        tree = self._live.tree
        page = _page(to_fragment(tree, self._failure), self._failure or summary_text(tree))
        update_display(page, raw=True, display_id=self._id)
        update_display(_page("", ""), raw=True, display_id=f"{self._id}-snapshot")
        self._panel.close()
        self._panel = None


def in_notebook() -> bool:
    """True in a kernel, whose front end can show widgets."""
    return hasattr(get_ipython(), "kernel")


def _page(html: str, text: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": text}
