"""The one mutable object: events in, journal and tree out.

Owns the order record, fold, show: what is on screen is always on disk. Never decides, and never calls
an agent or a device.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import workbench
from workbench.devices.base import Device
from workbench.errors import SessionError
from workbench.events import (
    AgentAnswered,
    AgentFailed,
    AgentSpoke,
    BranchAbandoned,
    BranchProposed,
    CaseTimed,
    Event,
    KernelWritten,
    LessonLearnt,
    ModelAnswered,
    RoundEnded,
    RoundStarted,
    SessionOpened,
    StageEntered,
)
from workbench.model import Branch, BranchId, Draft, Hypothesis, Kernel, Problem
from workbench.policy import Policy
from workbench.session.journal import Entry, Journal, read_entries, write_error
from workbench.session.lock import FolderLock
from workbench.session.texts import JournalTexts
from workbench.tree import Tree, fold

FOLLOWS = StageEntered | AgentSpoke | CaseTimed | RoundStarted | RoundEnded | LessonLearnt | AgentAnswered
"""What a resumed session comes to again by itself: it is written at once, but not waited for. A power cut
may take it, a crash of the program not; the next event of any other kind has the disk confirm it too. What
a language model said is news; what was made of it follows."""

Listener = Callable[[Tree], None]
"""Called with the newest tree after every recorded batch, one call at a time, on the posting thread."""


def opening(
    problem: Problem, policy: Policy, device: Device, brain: str, estimate: str = ""
) -> SessionOpened:
    """First event of a new session."""
    return SessionOpened(
        version=workbench.__version__,
        problem=problem,
        policy=policy,
        target=device.target,
        device=device.name,
        brain=brain,
        estimate=estimate,
    )


class Session:
    """A search with its journal. Make one with ``create`` or ``resume``; close it, or use it in a ``with``.

    ``post``, ``edit``, ``subscribe`` and ``tree`` may be used from any thread.
    """

    def __init__(self, folder: Path, lock: FolderLock, journal: Journal, tree: Tree) -> None:
        """For ``create`` and ``resume`` only."""
        self.folder = folder
        self._lock = lock
        self._journal = journal
        self._texts = JournalTexts(journal.path.absolute())
        self._tree = tree
        self._listeners: list[Listener] = []
        # Reentrant, so that a listener may post.
        self._guard = threading.RLock()
        self._closed = False

    # ------------------------------------------------------------------------------ begin and end

    @classmethod
    def create(cls, folder: Path, opened: SessionOpened) -> Session:
        """Begin a session in a new or empty folder.

        Raises ``SessionError`` when the folder already holds a session, is locked or cannot be written.
        """
        try:
            lock = _lock(folder)
        except OSError as error:
            reason = error.strerror or error
            raise SessionError(f"cannot begin in {folder}: {reason}. Choose another folder") from error
        try:
            check_free(folder)
            session = cls(folder, lock, Journal(folder / "journal.jsonl", 0), Tree())
            session.post(opened)
        except BaseException:
            lock.release()
            raise
        return session

    @classmethod
    def resume(cls, folder: Path) -> Session:
        """Go on with a session where its journal ends; branches in flight are done again.

        Raises ``SessionError`` when there is none, it is locked, or its journal is damaged.
        """
        if not (folder / "journal.jsonl").is_file():
            raise SessionError(f"there is no session in {folder}; check the path")
        try:
            lock = _lock(folder)
        except OSError as error:
            raise write_error(folder, error) from error
        try:
            tree, size = _load(folder)
            session = cls(folder, lock, Journal(folder / "journal.jsonl", size), tree)
            session._tidy()
        except BaseException:
            lock.release()
            raise
        return session

    def close(self) -> None:
        """Let go of folder and listeners; idempotent. The session can be resumed later."""
        with self._guard:
            self._closed = True
            self._listeners.clear()
            self._journal.close()
            self._lock.release()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------------------ what is known

    @property
    def tree(self) -> Tree:
        """The newest recorded state."""
        return self._tree

    @property
    def opened(self) -> SessionOpened:
        """First event: problem, policy, target, device and brain."""
        assert self._tree.opened is not None  # create and resume see to it
        return self._tree.opened

    @property
    def problem(self) -> Problem:
        """The reference to replace."""
        return self.opened.problem

    @property
    def policy(self) -> Policy:
        """The options of the search."""
        return self.opened.policy

    # ------------------------------------------------------------------------------ what happens

    def post(self, *events: Event) -> None:
        """Record events in one write, fold them, then tell the listeners.

        Raises ``SessionError`` when an event does not fit the tree or the disk refuses; then the tree
        and the journal are as before. Derived files come last: one that cannot be written raises too,
        but nothing is lost, as resuming writes it again.
        """
        with self._guard:
            if self._closed:
                raise SessionError(f"session {self.folder} is closed; resume it to go on")
            tree = fold(events, self._tree)
            places = self._journal.append(events, durable=any(_is_news(event) for event in events))
            self._tree = _on_disk(tree, zip(events, places, strict=True), self._texts)
            self._notify()
            for event in events:
                self._derive(event)

    def edit(self, parent: BranchId | None, source: str, by: str = "person", title: str = "") -> BranchId:
        """Record a kernel the person wrote, under the branch it started from; returns the new branch's id."""
        with self._guard:
            count = sum(node.operator == "edit" for node in self._tree.nodes.values())
            branch = Branch(
                id=BranchId(f"e{count + 1}"),
                parents=(parent,) if parent else (),
                round=max(self._tree.round, 1),
                operator="edit",
                hypothesis=Hypothesis(
                    title=title or (f"edit of {parent}" if parent else "a kernel by hand"),
                    bottleneck="none",
                    cause="the person's own change",
                    fix="see the source",
                ),
                author=by,
            )
            draft = Draft(kernel=Kernel(source=source))
            self.post(BranchProposed(branch=branch), KernelWritten(branch=branch.id, draft=draft))
            return branch.id

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener`` with the tree now and after every change; returns what ends it.

        A listener only takes note: a slow one holds up the search, one that raises is dropped and the
        failure recorded.
        """
        with self._guard:
            self._listeners.append(listener)
            self._tell(listener)

        def unsubscribe() -> None:
            with self._guard:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return unsubscribe

    def _notify(self) -> None:
        for listener in tuple(self._listeners):
            self._tell(listener)

    def _tell(self, listener: Listener) -> None:
        try:
            listener(self._tree)
        except Exception as error:
            # A view's fault must not end the search.
            self._listeners = [other for other in self._listeners if other is not listener]
            self.post(AgentFailed(role="view", message=f"{type(error).__name__}: {error}"))

    # ------------------------------------------------------------------------------ derived files

    def _derive(self, event: Event) -> None:
        match event:
            case SessionOpened(problem=problem):
                _write(self.folder / "problem.json", problem.model_dump_json(indent=1))
            case KernelWritten(branch=branch, draft=draft):
                _write(self.folder / "branches" / f"{branch}.cu", draft.kernel.source)
            case _:
                pass

    def _tidy(self) -> None:
        """After a crash: rewrite derived files, put what was in flight back, end edits without a kernel."""
        self._derive(self.opened)
        for node in self._tree.nodes.values():
            if node.draft is not None:
                self._derive(KernelWritten(branch=node.id, draft=node.draft))
            elif node.operator == "edit" and not node.settled:
                self.post(BranchAbandoned(branch=node.id, reason="its kernel was lost in a crash"))
            if node.stage not in ("waiting", "done"):
                self.post(StageEntered(branch=node.id, stage="waiting"))


def _is_news(event: Event) -> bool:
    """True for what nobody could come to again: it has to be on disk before anything builds on it."""
    match event:
        case BranchProposed(branch=branch):
            return branch.operator == "edit"
        case KernelWritten(branch=id):
            return id.startswith("e")
        case _:
            return not isinstance(event, FOLLOWS)


def has_session(folder: Path) -> bool:
    """True when a session was begun here; a journal torn in its first line does not count."""
    journal = folder / "journal.jsonl"
    return journal.is_file() and b"\n" in journal.read_bytes()


def check_free(folder: Path) -> None:
    """Raises ``SessionError`` for a folder in which no new session can begin, as it holds one."""
    if has_session(folder):
        raise SessionError(f"{folder} already holds a session; resume it or choose another folder")


def read_tree(folder: Path) -> Tree:
    """Tree of a session without opening it, for reports; it may be open elsewhere."""
    return _load(folder)[0]


def _load(folder: Path) -> tuple[Tree, int]:
    path = folder / "journal.jsonl"
    return folded(read_entries(path), path)


def folded(entries: Iterable[Entry], path: Path) -> tuple[Tree, int]:
    """The tree that a journal's lines make, and their bytes; what was said with models stays in the file.

    Raises ``SessionError`` naming the line that does not fit the tree.
    """
    tree, size, texts = Tree(), 0, JournalTexts(path.absolute())
    for line, entry in enumerate(entries, start=1):
        if line == 1 and not isinstance(entry.event, SessionOpened):
            break
        try:
            tree = _on_disk(tree.apply(entry.event), [(entry.event, entry.at)], texts)
        except SessionError as error:
            raise SessionError(f"{path}, line {line}: {error}") from error
        size += entry.size
    if tree.opened is None:
        raise SessionError(f"{path} does not begin with session_opened: no session was recorded here")
    return tree, size


def _on_disk(tree: Tree, places: Iterable[tuple[Event, int]], texts: JournalTexts) -> Tree:
    """The tree, which lets go of what was said with models: the journal has it at these places."""
    return tree.shelved({event.id: at for event, at in places if isinstance(event, ModelAnswered)}, texts)


def _lock(folder: Path) -> FolderLock:
    (folder / "branches").mkdir(parents=True, exist_ok=True)
    return FolderLock(folder)


def _write(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise write_error(path, error) from error
