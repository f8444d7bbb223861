"""A session with its worker thread: what a person holds in the notebook as ``session``.

Owns the thread and its event loop. Every action records an event and returns at once; the loop on the
thread takes it from there. Never prints: output of a thread would land in another cell.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from workbench.agents.base import Team
from workbench.devices.base import Device
from workbench.devices.usage import Usage, Watched
from workbench.errors import SessionError, said_by
from workbench.events import AgentFailed
from workbench.live.known import Known
from workbench.live.parts import Beginning, Listener, Tell
from workbench.live.steering import Steered
from workbench.model import BranchId
from workbench.orchestrator import run
from workbench.session import Session
from workbench.tree import Tree

if TYPE_CHECKING:
    from workbench.views.notebook import Shown


class LiveSession(Known, Steered):
    """A search that runs on a thread of its own while the person goes on working.

    ``session.tree`` is the newest state, empty while the problem is being read. Methods that act raise
    ``SessionError`` when the session is not open (yet, or any more) or a branch is unknown.
    """

    def __init__(self, beginning: Beginning, team: Team, device: Device) -> None:
        self.name = beginning.name
        self.folder = beginning.folder
        self._beginning = beginning
        self._team = team
        self._device = device
        self._session: Session | None = None
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._listeners: list[Listener] = []
        self._tells: list[Tell] = []
        self._at_failure: list[Tell] = []
        self._at_end: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="workbench-session", daemon=True)
        self._thread.start()

    # ------------------------------------------------------------------------------ the thread

    def _work(self) -> None:
        try:
            asyncio.run(self._main(self._beginning.begin(self._tell)))
        except BaseException as error:
            # The thread's boundary: kept, and raised where the person waits.
            self._error = error
            for tell in self._at_failure:
                tell(said_by(error))
        finally:
            self._notice()

    async def _main(self, session: Session) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.ensure_future(run(session, self._team, self._device, linger=True))
        self._session = session
        session.subscribe(self._spread)
        if self._closing.is_set():
            self._task.cancel()
        try:
            await self._task
        except asyncio.CancelledError:
            pass  # close() asked for it
        finally:
            await self._device.close()
            # Also after a failure: acts would be recorded for nobody, and the folder could not be resumed.
            session.close()

    def _notice(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _tell(self, text: str) -> None:
        for tell in tuple(self._tells):
            tell(text)

    def _open(self) -> Session:
        if self._session is None:
            raise SessionError(f"{self.name} is not open: {self.state}")
        return self._session

    # ------------------------------------------------------------------------------ what is known

    @property
    def tree(self) -> Tree:
        """The newest recorded state."""
        return self._session.tree if self._session is not None else Tree()

    @property
    def state(self) -> str:
        """One line on where the search stands."""
        return f"failed: {said_by(self._error)}" if self._error else super().state

    def __repr__(self) -> str:
        from workbench.views.report import summary_text

        if self.tree.opened is None:
            return f"<session {self.name} ({self.state})>"
        return f"<session {summary_text(self.tree)} ({self.state})>"

    def usage(self) -> Usage | None:
        """What the session's GPU is doing now; None where it has none, or is closed."""
        if self._closing.is_set() or not isinstance(self._device, Watched):
            return None
        return self._device.usage()

    # ------------------------------------------------------------------------------ waiting

    def opened(self, timeout: float | None = None) -> bool:
        """Wait until the problem is read; False when ``timeout`` seconds were not enough.

        Raises ``ProblemError`` for a problem that cannot be worked with, and whatever else went wrong.
        """
        with self._changed:
            done = self._changed.wait_for(lambda: self._session is not None or not self._at_work(), timeout)
        if self._error is not None:
            raise self._error
        return done

    def _at_work(self) -> bool:
        return self._error is None and self._thread.is_alive()

    def finished(self, timeout: float | None = None) -> bool:
        """Wait until the search has stopped or asks the person, and nothing is being judged.

        False when ``timeout`` seconds (None: no limit) were not enough. Never raises for a failed search.
        """
        with self._changed:
            return self._changed.wait_for(self._at_rest, timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """As ``finished``; raises what ended the search when that was a failure."""
        done = self.finished(timeout)
        if self._error is not None:
            raise self._error
        return done

    def judge(self, source: str, parent: str | None = None, timeout: float | None = None) -> str:
        """Have a kernel of yours judged, wait for the verdict, and return the branch's id.

        A child of ``parent`` where one is named; a kernel that is in the tree already keeps its branch and
        its verdict. After ``timeout`` seconds (None: no limit) it returns too, and judging goes on. Raises
        ``SessionError`` when the session is not open or there is no such parent.
        """
        branch = self._with_kernel(source) or BranchId(self.edit(parent, source))
        with self._changed:
            self._changed.wait_for(lambda: self.tree.node(branch).settled or not self._at_work(), timeout)
        if self._error is not None:
            raise self._error
        return branch

    def _with_kernel(self, source: str) -> BranchId | None:
        """The branch that has this text, unless it was given up."""
        had = self._open().tree.holding(source)
        return next((node.id for node in had if not node.abandoned), None)

    def _at_rest(self) -> bool:
        if not self._at_work():
            return True
        tree = self.tree
        busy = any(n.stage in ("writing", "compiling", "running") for n in tree.nodes.values())
        unjudged = any(n.operator == "edit" and not n.settled for n in tree.nodes.values())
        return tree.gate in ("asking", "reviewing", "stopped") and not busy and not unjudged

    def __await__(self) -> Generator[Any, None, LiveSession]:
        yield from asyncio.to_thread(self.wait).__await__()
        return self

    # ------------------------------------------------------------------------------ views and end

    def show(self) -> Shown:
        """Show the panel in the notebook's current cell."""
        from workbench.views.notebook import Shown

        return Shown(self)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with the tree now and after every change; returns what ends it.

        A listener only takes note. One that raises is dropped and the failure recorded.
        """
        with self._changed:
            self._listeners.append(listener)
        listener(self.tree)

        def unsubscribe() -> None:
            with self._changed:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def _spread(self, tree: Tree) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(tree)
            except Exception as error:
                # A view's fault must not end the search.
                self._listeners.remove(listener)
                self._open().post(AgentFailed(role="view", message=f"{type(error).__name__}: {error}"))
        self._notice()

    def at_note(self, tell: Tell) -> None:
        """Call ``tell`` with what opening is busy with, a line at a time, on the worker thread."""
        self._tells.append(tell)

    def at_failure(self, tell: Tell) -> None:
        """Call ``tell`` with one line when opening or the search itself fails, or has failed."""
        self._at_failure.append(tell)
        if self._error is not None:
            tell(said_by(self._error))

    def at_close(self, act: Callable[[], None]) -> None:
        """Call ``act`` once when the session is closed."""
        self._at_end.append(act)

    @property
    def closed(self) -> bool:
        """True once it was closed."""
        return self._closing.is_set()

    def close(self) -> None:
        """End the search and its workers; idempotent. The folder can be resumed.

        A problem that is still being read is let go of in the background.
        """
        if self._closing.is_set():
            return
        self._closing.set()
        if self._loop is not None and self._task is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
        if self._session is not None:
            self._thread.join()
            self._session.close()
        for act in self._at_end:
            act()

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
