"""A recorded session to read: panel, page and frame without its device, its models or its lock.

Nothing is recorded: every act is refused in a line. The session may be running elsewhere; what is shown is
the moment it was opened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import SessionError
from workbench.live.known import Known
from workbench.live.parts import Listener, Tell, missing
from workbench.live.steering import Steered
from workbench.session import Session, read_tree
from workbench.tree import Tree

if TYPE_CHECKING:
    from workbench.devices.usage import Usage
    from workbench.views.notebook import Shown


def look(folder: Path | str) -> RecordedSession:
    """Read a session's folder, on any machine. Raises ``SessionError`` where none was recorded."""
    return RecordedSession(Path(folder).expanduser())


class RecordedSession(Known, Steered):
    """What a session's journal says, to be looked at."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "journal.jsonl").is_file():
            raise missing(folder)
        self.folder = folder.absolute()
        """Still the session's when the working directory is another."""
        self._tree = read_tree(self.folder)
        assert self._tree.opened is not None  # read_tree sees to it
        self.name = self._tree.opened.problem.name
        self._at_close: list[Callable[[], None]] = []

    def _open(self) -> Session:
        raise SessionError("this session is only shown, as it was recorded; %cuda_resume goes on with it")

    @property
    def tree(self) -> Tree:
        """The recorded state."""
        return self._tree

    def __repr__(self) -> str:
        from workbench.views.report import summary_text

        return f"<recorded session {summary_text(self._tree)}>"

    def stop(self) -> None:
        """Nothing runs: a button or an interrupt has nothing to end."""

    def wait(self, timeout: float | None = None) -> bool:
        """There is nothing to wait for."""
        return True

    opened = finished = wait

    def judge(self, source: str, parent: str | None = None, timeout: float | None = None) -> str:
        """Refused, as every act."""
        return self.edit(parent, source)

    def usage(self) -> Usage | None:
        """None: no device is held."""
        return None

    def show(self) -> Shown:
        """Show the panel in the notebook's current cell."""
        from workbench.views.notebook import Shown

        return Shown(self)

    # ------------------------------------------------------------------------------ what a panel asks for

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` once: nothing changes any more."""
        listener(self._tree)
        return lambda: None

    def at_note(self, tell: Tell) -> None:
        """Nothing is being opened."""

    def at_failure(self, tell: Tell) -> None:
        """Nothing can fail any more."""

    def at_close(self, act: Callable[[], None]) -> None:
        """Call ``act`` once when the session is closed."""
        self._at_close.append(act)

    def close(self) -> None:
        """Freeze what is shown; idempotent."""
        acts, self._at_close = self._at_close, []
        for act in acts:
            act()
