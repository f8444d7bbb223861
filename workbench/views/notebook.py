"""The panel in the notebook: shown live, frozen into script-free HTML at the end.

A saved widget without its kernel shows nothing, so a snapshot lies beside it: hidden while the panel
lives, seen when the notebook is opened again. Imports the widget stack; nothing else here does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Protocol

from IPython.display import HTML, display, update_display

from workbench.tree import Tree
from workbench.views.messages import Steering
from workbench.views.panel import Panel
from workbench.views.report import to_fragment
from workbench.views.throttle import Throttle

SNAPSHOT_S = 2.0
"""Least time between two snapshots: each is tens of kilobytes in the notebook."""


class Watched(Steering, Protocol):
    """A running session, as far as its output needs it."""

    @property
    def tree(self) -> Tree: ...
    def subscribe(self, listener: Callable[[Tree], None]) -> Callable[[], None]: ...
    def at_failure(self, tell: Callable[[str], None]) -> None: ...
    def at_close(self, act: Callable[[], None]) -> None: ...


class Shown:
    """One session's output in a notebook cell."""

    def __init__(self, live: Watched) -> None:
        self._live = live
        self._id = f"workbench-{uuid.uuid4().hex[:12]}"
        self.panel = Panel(live.tree, live, self._id)
        self._snapshots: Throttle[Tree] = Throttle(self._snapshot, SNAPSHOT_S)
        self._gate = ""
        display(self.panel, display_id=self._id)
        display(HTML(""), display_id=f"{self._id}-snapshot")
        self._unsubscribe = live.subscribe(self._show)
        live.at_failure(self.panel.say)
        live.at_close(self.freeze)

    def _show(self, tree: Tree) -> None:
        self.panel.show(tree)
        if tree.gate != self._gate:
            self._gate = tree.gate
            self._snapshots.offer(tree)

    def _snapshot(self, tree: Tree) -> None:
        html = f'<div id="{self._id}-snapshot">{to_fragment(tree)}</div>'
        update_display(HTML(html), display_id=f"{self._id}-snapshot")

    def freeze(self) -> None:
        """Put the last state in the panel's place; the panel is gone afterwards."""
        self._unsubscribe()
        self._snapshots.cancel()
        update_display(HTML(to_fragment(self._live.tree)), display_id=self._id)
        update_display(HTML(""), display_id=f"{self._id}-snapshot")
        self.panel.close()
