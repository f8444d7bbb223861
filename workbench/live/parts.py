"""What a live session is begun with and what it answers with: frozen values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.errors import SessionError
from workbench.model import Layout, Passed
from workbench.session import Session
from workbench.tree import Tree

Listener = Callable[[Tree], None]
Tell = Callable[[str], None]
"""Takes a line for the person."""
ExportFormat = Literal["folder", "kernelbench"]
SESSIONS = Path(".workbench")
"""Where sessions without a folder of their own go, in the working directory."""
MOST_NAMED = 3
"""Sessions in a message."""


@dataclass(frozen=True)
class Best:
    """The best correct kernel so far."""

    id: str
    title: str
    score: float
    """Geometric mean over the declared cases of fastest baseline over time."""
    score_source: str
    """``model`` or ``measured``."""
    source: str
    """The whole ``.cu`` text with its plan."""
    slower: str = ""
    """``slower than torch.compile by the model``; empty for a kernel that is not."""
    layouts: tuple[tuple[Layout, ...], ...] = ()
    """See ``Passed.layouts``."""

    def __repr__(self) -> str:
        from workbench.views.phrases import factor_text

        slower = f", {self.slower}" if self.slower else ""
        return f"<{self.id}: {self.title}, {factor_text(self.score)} ({self.score_source}){slower}>"


@dataclass(frozen=True)
class Beginning:
    """How a session comes to be."""

    name: str
    """The problem's name, known before the problem is."""
    folder: Path
    begin: Callable[[Tell], Session]
    """Opens the problem and the journal, which may take seconds; tells what it is busy with."""


def missing(folder: Path) -> SessionError:
    """What is said where a folder holds no session: the newest ones there are, those of that name first."""
    there = [path.parent for path in SESSIONS.glob("*/journal.jsonl")]
    mine = [path for path in there if path.name.startswith(f"{folder.name}-")]
    newest = sorted(mine or there, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_NAMED]
    hint = f"the newest: {', '.join(map(str, newest))}" if newest else "check the path"
    return SessionError(f"there is no session in {folder}; {hint}")


class Page(str):
    """A page's text that a notebook does not print in full; ``print(page)`` does."""

    path: Path | None = None

    def __repr__(self) -> str:
        from workbench.views.phrases import bytes_text

        where = f"written to {self.path}" if self.path else "not written: to_html(PATH) does"
        return f"<page of {bytes_text(len(self.encode()))}, {where}>"


def page_of(tree: Tree, folder: Path, path: Path | str | None, scripts: bool) -> Page:
    """A session as one self-contained page; also written to ``path`` when given, its folder made if need be.

    Raises ``SessionError`` when the disk refuses.
    """
    from workbench.views.page import to_page
    from workbench.views.report import to_html

    page = Page(to_page(tree, folder) if scripts else to_html(tree))
    if path is not None:
        page.path = Path(path)
        try:
            page.path.parent.mkdir(parents=True, exist_ok=True)
            page.path.write_text(page, encoding="utf-8")
        except OSError as error:
            raise SessionError(f"cannot write {path}: {error.strerror or error}") from error
    return page


def best_of(tree: Tree) -> Best | None:
    """The best correct kernel of a tree; None while there is none."""
    from workbench.views.project import slower

    id = tree.best()
    if id is None:
        return None
    node = tree.nodes[id]
    assert node.draft is not None and node.evaluation is not None  # it passed
    times = node.evaluation.times
    source = times[0].source if times else "model"
    title, text = node.branch.hypothesis.title, node.draft.kernel.source
    outcome = node.evaluation.outcome
    layouts = outcome.layouts if isinstance(outcome, Passed) else ()
    return Best(id, title, node.score, source, text, slower(node), layouts)
