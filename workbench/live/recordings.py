"""Replaying a session: the recording read from disk, its team and its device put together.

Owns the path and the check that the recording is of this problem. A replay needs no network and no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workbench.agents.base import Team
from workbench.agents.replay import Recording, differences, replay_team
from workbench.devices.base import Device
from workbench.devices.recorded import RecordedDevice
from workbench.errors import UsageError
from workbench.model import Problem
from workbench.session import folded
from workbench.session.journal import read_entries
from workbench.tree import Tree
from workbench.views.phrases import plural

PREFIX = "replay:"


def is_replay(brain: str) -> bool:
    """True for ``replay`` and ``replay:FOLDER``."""
    return brain == "replay" or brain.startswith(PREFIX)


def read_recording(source: str | Path) -> Recording:
    """The recording in a session's folder or a journal's file. Raises ``UsageError``, ``SessionError``."""
    path = Path(source).expanduser()
    path = path / "journal.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(f"there is no recording at {source}: give a session's folder or its journal.jsonl")
    entries = tuple(read_entries(path))
    return Recording.of([entry.event for entry in entries], folded(entries, path)[0])


def replay_parts(
    recording: Recording, source: str, otherwise: Callable[[], Device] | None
) -> tuple[Team, Device]:
    """Team and device of a replay; a kernel that is new is judged by the device ``otherwise`` opens."""
    opened = recording.opened
    device = RecordedDevice(opened.device, opened.target, recording.evaluations, otherwise)
    return replay_team(recording, source), device


def check_same(recording: Recording, problem: Problem) -> None:
    """Raises ``UsageError`` that names the first difference when the recording is of another problem."""
    recorded = recording.opened.problem
    for what, name in (
        ("arguments", "tensors"),
        ("fixed values", "statics"),
        ("outputs", "outputs"),
        ("shapes", "cases"),
        ("precision", "contract"),
    ):
        if getattr(recorded, name) != getattr(problem, name):
            raise UsageError(
                f"the recording is of {recorded.name} ({', '.join(c.label for c in recorded.cases)}); "
                f"{problem.name} has other {what}, so its kernels do not fit"
            )


def replay_words(tree: Tree) -> tuple[str, ...]:
    """Of a replay: that it grew the recorded tree, or where it diverges, a line each; else nothing."""
    if tree.opened is None or not is_replay(tree.opened.brain):
        return ()
    recorded = read_recording(tree.opened.brain.removeprefix(PREFIX)).tree
    found = differences(recorded, tree)
    if not found:
        size = f"{plural(len(tree.nodes), 'branch')} in {plural(tree.round, 'round')}"
        return (f"replay: the recorded tree, {size}",)
    return ("replay: diverges from the recording", *(f"  {line}" for line in found[:10]))
