"""The notebook panel: one widget a session. Shows projections of the tree, passes on what the person says.

Callbacks run on whatever thread the notebook server chooses: they check a message and hand it on,
nothing else. Screen state (selection, tab, drafts) stays in the browser.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from workbench.errors import WorkbenchError
from workbench.model import BranchId, CompileReport, Outcome
from workbench.tree import Tree
from workbench.views.compare import compare
from workbench.views.detail import detail
from workbench.views.differences import differences
from workbench.views.messages import (
    Check,
    Compare,
    Differ,
    Edit,
    LoadEditor,
    Question,
    Samples,
    Select,
    Steering,
    carry_out,
    read_message,
)
from workbench.views.numbers import compiled_words, complaints
from workbench.views.phrases import shown_path
from workbench.views.project import project
from workbench.views.report import summary_text, to_fragment
from workbench.views.samples import samples_json
from workbench.views.throttle import Throttle
from workbench.views.verdicts import SHAPES

STATIC = Path(__file__).parent / "static"
SCRIPT = "panel.js"
"""Built from ``src`` by ``make assets``."""
EDITOR = "editor.js"
"""Half a megabyte: sent when somebody opens a kernel, never saved with the notebook."""
AT_ONCE = 64
"""Most details sent unasked at a time."""
STYLES = ("theme.css", "panel.css")


def _join(names: tuple[str, ...]) -> str:
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def _hear_where_asked(comm: Any) -> None:
    """Let the kernel take a click where the browser sent it.

    ipykernel 7.4 instead sends it to the subshell of whatever message the kernel looked at last when the
    widget was updated. Updates come from our own thread, where that is any subshell, one that has ended
    included: then the click is lost. Its attribute is private, so that other versions are left alone.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


class Panel(anywidget.AnyWidget):
    """A live view of one session; ``show`` takes every new tree, from any thread."""

    _esm = _join((SCRIPT,))
    _css = _join(STYLES)
    view = traitlets.Dict().tag(sync=True)
    shapes = traitlets.Dict(SHAPES).tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)
    busy = traitlets.Unicode().tag(sync=True)
    failure = traitlets.Unicode().tag(sync=True)
    place = traitlets.Unicode().tag(sync=True)
    """The session's folder as somebody would type it; told where the notebook's kernel is gone."""
    usage = traitlets.Dict().tag(sync=True)
    """What the GPU is doing, in words; empty where there is none."""

    def __init__(self, tree: Tree, steering: Steering, key: str = "", folder: Path | None = None) -> None:
        """``key`` names the snapshot that is hidden while this panel lives; receipts lie in ``folder``."""
        super().__init__(key=key, place=shown_path(folder) if folder is not None else "")
        _hear_where_asked(self.comm)
        self._tree = tree
        self._folder = folder
        self._sent: dict[BranchId, tuple[object, ...]] = {}
        self._steering = steering
        self._throttle: Throttle[Tree] = Throttle(self._draw)
        self.on_msg(self._receive)
        self._update(tree)

    def show(self, tree: Tree) -> None:
        """Take note of a new tree; it is drawn within a tenth of a second."""
        self._tree = tree
        self._throttle.offer(tree)

    def flush(self) -> None:
        """Draw what is waiting, now."""
        self._throttle.flush()

    def _draw(self, tree: Tree) -> None:
        try:
            self._update(tree)
        except Exception as error:
            # The timer's thread has nobody to raise to, and what it prints lands in any cell.
            self.fail(f"the panel cannot show this session: {type(error).__name__}: {error}")

    def _update(self, tree: Tree) -> None:
        self.view = project(tree)
        best = tree.best()
        talk = Counter(exchange.branch for exchange in tree.exchanges.values())
        changed = []
        for id, node in tree.nodes.items():
            # What a card shows hangs on these alone.
            shown = (node, id == best, tree.is_pruned(id), talk[id], tree.speaking.get(id))
            if self._sent.get(id) != shown:
                self._sent[id] = shown
                changed.append(id)
        # Of a large session the rest is asked for when somebody looks at it.
        for id in changed if len(changed) <= AT_ONCE else changed[-AT_ONCE:]:
            self._send_detail(tree, id)

    def _send_detail(self, tree: Tree, branch: BranchId) -> None:
        self.send({"type": "detail", "branch": branch, "detail": detail(tree, branch)})

    def _receive(self, _: object, content: Any, __: object) -> None:
        message = read_message(content)
        if isinstance(message, str):
            return self.say(f"That was not understood: {message}")
        taken = False
        try:
            if isinstance(message, Question):
                return self._answer(message)
            self.say(carry_out(message, self._steering))
            taken = True
        except WorkbenchError as error:
            self.say(str(error))
        if isinstance(message, Edit):  # until then the browser keeps the text
            self.send({"type": "edited", "branch": message.branch, "taken": taken})

    def _answer(self, question: Question) -> None:
        tree = self._tree
        match question:
            case Select(branch=branch):
                self._send_detail(tree, branch)
            case Differ(branch=branch, against=against):
                self.send({"type": "difference", "difference": differences(tree, branch, against)})
            case Compare(branches=branches):
                self.send({"type": "comparison", "comparison": compare(tree, branches)})
            case Samples(branch=branch):
                self.send({"type": "samples", "samples": samples_json(tree, branch, self._folder)})
            case LoadEditor():
                self.send({"type": "editor", "script": _join((EDITOR,))})
            case Check(ticket=ticket, source=source):
                self._steering.check(source, lambda found: self._send_check(ticket, found))

    def _send_check(self, ticket: int, found: CompileReport | Outcome | None) -> None:
        content = {
            "diagnostics": complaints(found),
            "words": compiled_words(found),
            "known": found is not None,
        }
        self.send({"type": "checked", "ticket": ticket, **content})

    def note(self, text: str) -> None:
        """Show what opening is busy with; gone once the problem is read."""
        self.busy = text

    def fail(self, text: str) -> None:
        """Show, to stay, why there is no session or no more of it."""
        self.failure = text

    def say(self, text: str) -> None:
        """Show a line to the person; an empty one is not shown."""
        if text:
            self.send({"type": "said", "text": text})

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The widget, beside a page without scripts and a line of text for readers that have no widgets."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        static = {"text/html": to_fragment(self._tree, self.failure), "text/plain": summary_text(self._tree)}
        return {**data, **static}, metadata
