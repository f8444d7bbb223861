"""What can be read of a session, be it at work or recorded: the same calls for both. Changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from workbench.live.parts import Best, ExportFormat, Page, best_of, page_of
from workbench.live.recordings import replay_words
from workbench.model import BranchId
from workbench.tree import Tree

if TYPE_CHECKING:
    import pandas


class Known:
    """A session's tree in its many forms."""

    name: str
    """The problem's name."""
    folder: Path
    """Where the journal and the kernels are."""

    @property
    def tree(self) -> Tree:
        """The newest recorded state, empty while the problem is being read."""
        raise NotImplementedError

    @property
    def best(self) -> Best | None:
        """The best correct kernel so far; None while there is none."""
        return best_of(self.tree)

    @property
    def state(self) -> str:
        """One line on where the search stands."""
        from workbench.views.project import state_json

        return str(state_json(self.tree)["words"])

    def conversation(self, branch: str) -> str:
        """What was said with language models about a branch: prompts, answers, tokens and seconds."""
        from workbench.views.conversation import conversation_text

        return conversation_text(self.tree, BranchId(branch))

    def replayed(self) -> tuple[str, ...]:
        """Of a replay: that the recorded tree grew, or where it diverged; else nothing."""
        return replay_words(self.tree)

    def to_frame(self) -> pandas.DataFrame:
        """A data frame with a row a branch."""
        from workbench.views.frame import to_frame

        return to_frame(self.tree)

    def to_html(self, path: Path | str | None = None, scripts: bool = True) -> Page:
        """One self-contained page that opens anywhere; also written to ``path`` when given.

        With ``scripts`` its tree can be clicked through; a reader that runs none, or False, shows the same
        numbers in a plain page.
        """
        return page_of(self.tree, self.folder, path, scripts)

    def export(self, path: Path | str, format: ExportFormat = "folder") -> Path:
        """Write the best kernel; returns ``path``.

        ``folder``: kernel, reference, journal and report. ``kernelbench``: one file with a class ``ModelNew``
        that other harnesses can judge. Raises ``SessionError`` when there is no correct kernel yet or the
        disk refuses, ``UsageError`` for what a format cannot hold.
        """
        from workbench.live.export import exported

        return exported(self, Path(path), format)
