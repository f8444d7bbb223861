"""Starting and resuming: problem, folder, team and device are put together here, and only here."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.agents.base import Team
from workbench.devices.base import Device
from workbench.devices.select import keep_receipts
from workbench.errors import SessionError, UsageError, nearest
from workbench.events import SessionOpened
from workbench.live.history import with_history
from workbench.live.live_session import LiveSession
from workbench.live.parts import SESSIONS, Beginning, Tell, missing
from workbench.live.recordings import PREFIX, check_same, is_replay, read_recording, replay_parts
from workbench.live.room import check_room
from workbench.model import Problem
from workbench.orchestrator import reopen
from workbench.policy import Policy
from workbench.problem.capture import Capture, from_objects
from workbench.problem.intake import open_problem
from workbench.session import Session, check_free, opening

if TYPE_CHECKING:
    from workbench.agents.llm.settings import Choice

LONGEST_NAME = 48
"""Letters of a problem's name in its folder's: of four bytes each, with the time, it is a file's name."""
DEVICES = ("auto", "emulator", "cuda", "null")


def capture(reference: Callable[..., Any], *inputs: Any) -> Capture:
    """A function or module with the inputs to call it with, as ``optimize`` takes it.

    Raises ``ProblemError``.
    """
    name = getattr(reference, "__name__", type(reference).__name__)
    names = [f"input_{index}" for index in range(len(inputs))]
    module = sys.modules.get(getattr(reference, "__module__", None) or "")
    around = getattr(reference, "__globals__", None) or getattr(module, "__dict__", {})
    namespace = {**around, name: reference, **dict(zip(names, inputs, strict=True))}
    return from_objects(namespace, name, names)


def optimize(
    subject: Problem | Capture | None,
    policy: Policy | None = None,
    device: str | Device = "auto",
    brain: str | Team = "playbook",
    folder: Path | str | None = None,
) -> LiveSession:
    """Start a search for fast kernels and return at once with the running session.

    ``subject`` is a problem, or the capture of a cell, a file or a callable. A capture is opened in the
    background, which takes seconds: ``session.opened()`` waits for it and raises ``ProblemError`` when it
    cannot be worked with. Raises ``UsageError`` for an unknown brain or device and ``SessionError``.
    With the brain ``replay:FOLDER`` the recording's problem and policy count; ``subject`` may be None.
    """
    if isinstance(brain, str) and is_replay(brain):
        return replay(subject, brain.removeprefix(PREFIX), device, folder)
    if subject is None:
        raise UsageError("what is to be made fast? Give a problem, or replay a recording")
    wanted = policy or Policy()
    team = with_memory(brain if isinstance(brain, Team) else open_team(brain), wanted)
    chosen = open_device_named(device) if isinstance(device, str) else device
    where = _settled(folder, subject.name)

    def create(problem: Problem) -> Session:
        check_room(problem, chosen.target)
        keep_receipts(chosen, where)
        estimate = team.estimate(problem, chosen.target, wanted)
        first = opening(problem, wanted, chosen, team.name, estimate)
        return Session.create(where, with_history(first, where))

    if isinstance(subject, Problem):
        return _live(create(subject), team, chosen)

    def begin(tell: Tell) -> Session:
        return create(open_problem(subject, tell))

    return LiveSession(Beginning(subject.name, where, begin), team, chosen)


def replay(
    subject: Problem | Capture | None,
    source: str,
    device: str | Device = "auto",
    folder: Path | str | None = None,
) -> LiveSession:
    """Grow the tree of a recorded session again: no network, no GPU. ``subject`` must be its problem.

    ``device`` judges kernels that are not in the recording, such as your own edits; ``auto`` is the
    emulator. Raises ``UsageError`` when there is no recording, or it is of another problem.
    """
    recording = read_recording(source)
    recorded = recording.opened
    team, chosen = replay_parts(recording, source, lambda: _other_device(device))
    name = subject.name if subject is not None else recorded.problem.name
    where = _settled(folder, name)

    def create(problem: Problem) -> Session:
        check_same(recording, problem)
        return Session.create(where, opening(problem, recorded.policy, chosen, team.name))

    if subject is None or isinstance(subject, Problem):
        return _live(create(subject or recorded.problem), team, chosen)

    def begin(tell: Tell) -> Session:
        return create(open_problem(subject, tell))

    return LiveSession(Beginning(name, where, begin), team, chosen)


def _other_device(device: str | Device) -> Device:
    if not isinstance(device, str):
        return device
    return open_device_named("emulator" if device == "auto" else device)


def _live(session: Session, team: Team, device: Device) -> LiveSession:
    live = LiveSession(Beginning(session.problem.name, session.folder, lambda _: session), team, device)
    live.opened()
    return live


def resume(folder: Path | str) -> LiveSession:
    """Go on with a session where its journal ends. Raises ``SessionError`` or ``UsageError``.

    A session needs the device and the brain it was begun with; ``look`` shows it on any machine.
    """
    if not (Path(folder) / "journal.jsonl").is_file():
        raise missing(Path(folder))
    session = Session.resume(Path(folder).absolute())
    try:
        team, device = _parts(session.opened)
        keep_receipts(device, session.folder)
        reopen(session)
    except UsageError as error:
        session.close()
        raise UsageError(f"{error}. To read the session as it is: %cuda_resume {folder} --look") from error
    except BaseException:
        session.close()
        raise
    return _live(session, team, device)


def _parts(opened: SessionOpened) -> tuple[Team, Device]:
    """Team and device that a session was begun with."""
    if is_replay(opened.brain):
        source = opened.brain.removeprefix(PREFIX)
        return replay_parts(read_recording(source), source, lambda: _other_device("auto"))
    return with_memory(open_team(opened.brain), opened.policy), open_device_named(opened.device)


def with_memory(team: Team, policy: Policy) -> Team:
    """The team with what earlier sessions found, unless the policy or ``WORKBENCH_ARCHIVE`` says no."""
    from workbench.archive import Archive, archive_folder, remembering

    folder = archive_folder()
    return remembering(team, Archive(folder)) if policy.archive and folder is not None else team


def choose_brain(brain: str, choice: Choice | None = None, recorded: str = "") -> Team | str:
    """What ``optimize`` takes as a brain, before the problem is read: what is not set is told at once.

    ``recorded`` is the session a replay is from. Raises ``UsageError``.
    """
    if recorded and brain not in ("replay", "playbook"):
        raise UsageError("--from belongs to --brain replay")
    if recorded:
        return f"{PREFIX}{recorded}"
    if brain == "replay":
        raise UsageError("what is to be replayed? Add --from with a session's folder")
    return brain if is_replay(brain) else open_team(brain, choice)


def open_team(brain: str, choice: Choice | None = None) -> Team:
    """The five agents of a brain: ``playbook``, ``llm``, ``reasoner=llm,synthesizer=playbook``, ...

    Raises ``UsageError`` for an unknown one, or a model whose key or name is not set.
    """
    from workbench.agents.casting import cast_team

    return cast_team(brain, choice)


def open_device_named(name: str) -> Device:
    """A device by name. Raises ``UsageError`` for an unknown one or one this machine lacks."""
    if name not in DEVICES:
        shown = [known for known in DEVICES if known != "null"]  # for tests of the workbench itself
        raise UsageError(f"unknown device {name!r}; there are {', '.join(shown)}.{nearest(name, shown)}")
    from workbench.devices.select import open_device

    return open_device(name)


def _settled(folder: Path | str | None, name: str) -> Path:
    """Where a session will be, also when the working directory is another one by then.

    A folder that is taken is told at once: a notebook's cell that is run again would have closed the session
    that it opened before for one that cannot begin. Raises ``SessionError``.
    """
    if folder is None:
        return fresh_folder(name).absolute()
    where = Path(folder).absolute()
    check_free(where)
    return where


def fresh_folder(name: str) -> Path:
    """A folder under ``.workbench`` that does not exist: the problem's name and the time."""
    safe = re.sub(r"\W+", "_", name).strip("_")[:LONGEST_NAME] or "session"
    stem = f"{safe}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1000):
        folder = SESSIONS / (stem if number == 0 else f"{stem}-{number}")
        if not folder.exists():
            return folder
    raise SessionError(f"{SESSIONS} is full of sessions named {stem}; remove some")
