"""Whoever starts workers and tools is killed: within a moment nothing of them is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

OWNER = Path(__file__).with_name("owner.py")
TESTS = OWNER.parents[1]
SOON_S = 60.0
"""A second or two, on a machine that has other things to do."""
Process = tuple[int, str]
"""Its number, and when it started: numbers are given again."""


def processes() -> dict[Process, int]:
    """Every process that is not a zombie, with its parent's number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if words[0] != "Z":
                found[int(folder.name), words[19]] = int(words[1])
    return found


def below(pid: int) -> set[Process]:
    """All descendants of a process."""
    parents = processes()
    wanted, found = {pid}, set()
    while new := {one for one, parent in parents.items() if parent in wanted and one not in found}:
        found |= new
        wanted = {one[0] for one in new}
    return found


def commands(pids: set[Process]) -> list[str]:
    told = []
    for pid, _ in pids:
        try:
            told.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return told


def awaited(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return met


def sleeping(pids: set[Process]) -> bool:
    """The innermost process has begun, in a session of its own."""
    return any(command.startswith("sleep 300") for command in commands(pids))


def spinning(pids: set[Process]) -> bool:
    """A kernel runs, in the process that a worker has forked for it."""
    parents = {one[0]: parent for one, parent in processes().items()}
    known = {pid for pid, _ in pids}
    return any(_ran_s(pid) > 0.5 and parents.get(parents.get(pid, 0)) in known for pid, _ in pids)


def _ran_s(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def watching(pids: set[Process]) -> bool:
    """A program of ours has a thread that looks at its owner."""
    return any(len(list(Path(f"/proc/{pid}/task").iterdir())) == 2 for pid, _ in pids)


def importing(pids: set[Process]) -> bool:
    """A fork-server has begun to import what it is to have ready."""
    return any("slow_to_import" in command for command in commands(pids))


@pytest.mark.many(11)
@pytest.mark.parametrize(
    ("kind", "ready", "how"),
    [
        ("kept", sleeping, signal.SIGKILL),
        ("kept", sleeping, signal.SIGTERM),
        ("sanitizer", sleeping, signal.SIGKILL),
        ("profiler", sleeping, signal.SIGKILL),
        ("test_runner", watching, signal.SIGKILL),
        ("importing", importing, signal.SIGKILL),
        ("emulator", spinning, signal.SIGKILL),
        ("foreign", sleeping, signal.SIGTERM),
    ],
)
def test_nothing_is_left(
    kind: str, ready: Callable[[set[Process]], bool], how: signal.Signals, tmp_path: Path
) -> None:
    places = os.pathsep.join([str(TESTS), *sys.path])
    with subprocess.Popen(
        [sys.executable, str(OWNER), kind, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": places},
    ) as owner:
        try:
            assert awaited(lambda: ready(below(owner.pid)), 60), commands(below(owner.pid))
            time.sleep(0.2)
            started = below(owner.pid)
        finally:
            owner.send_signal(how)
            owner.wait(10)
    ended = awaited(lambda: not started & set(processes()), SOON_S)
    left = started & set(processes())
    told = commands(left)
    for pid, _ in left:  # of a test that fails; they are this test's own
        os.kill(pid, signal.SIGKILL)
    assert ended, told
