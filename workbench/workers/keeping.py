"""Programs that are not ours, started so that they end when this process does, by ``kill -9`` too.

A compiler, a profiler or a benchmark's part goes on using processor and GPU when whoever started it is cut
off by a time limit. Each runs under a keeper of its own, which outlives this process by milliseconds.
Owns the command lines and the ending; what a program is for is its caller's business. Children of a
fork-server need none of this: the server watches over them.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

KEEPER = Path(__file__).with_name("keeper.py")
GRACE_S = 2.0
"""What a keeper may take to kill what it keeps."""
LOOK_S = 0.25


def kept(command: Sequence[str]) -> list[str]:
    """The command line that runs another one under a keeper of this process's.

    Raises ``FileNotFoundError`` where there is no such program: the keeper itself would be found.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(2, "no such program", command[0])
    return [sys.executable, "-I", "-S", str(KEEPER), str(os.getpid()), *command]


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """End a kept program with all it started, and wait for that; idempotent."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run_kept(
    command: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run`` with captured text; nothing of the command is left afterwards.

    Raises ``subprocess.TimeoutExpired`` and ``OSError``.
    """
    process = subprocess.Popen(
        kept(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout_s)
    finally:
        end(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def wait_kept(command: Sequence[str], timeout_s: float) -> int:
    """Run a command that prints where this process prints; its exit code, with nothing of it left.

    Raises ``subprocess.TimeoutExpired`` and ``OSError``.
    """
    process = subprocess.Popen(kept(command), start_new_session=True)
    try:
        return process.wait(timeout_s)
    finally:
        end(process)


def end_with(owner: int) -> None:
    """From now on this process is killed when ``owner``, its parent, has gone, whatever its threads do.

    For programs of ours that are started by others, such as the test runner's. In a forked worker the
    kernel does it (``PR_SET_PDEATHSIG``), which here would tell of the starting thread's end instead.
    """
    threading.Thread(target=_await, args=(owner,), name="owner", daemon=True).start()


def _await(owner: int) -> None:
    try:
        with suppress(OSError):  # an older kernel cannot tell
            descriptor = os.pidfd_open(owner)
            if os.getppid() == owner:
                select.select([descriptor], [], [])
        while os.getppid() == owner:
            time.sleep(LOOK_S)
    finally:
        os.kill(os.getpid(), signal.SIGKILL)
