"""A program that runs another one and leaves nothing of it behind: started by path, imports no package.

Usage: ``python -I -S keeper.py OWNER COMMAND...``. The command, and whatever it started in any session, is
killed when it ends, when this process is told to end, and when the process OWNER is gone, however that went.
The exit code is the command's; where a signal ended it this process ends by the same one.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LOOK_S = 0.25
"""How often the owner is looked for where the kernel cannot tell of its end (before Linux 5.3)."""
LOST = 127


def main(owner: int, command: list[str]) -> NoReturn:
    """Run the command to its end, or to the owner's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what leaves its session comes to us
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _: told.append(got))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = started(command)
    watched = [woken, *_sight_of(owner)]
    status = None
    while status is None and not told and os.getppid() == owner:
        ready, _, _ = select.select(watched, [], [], LOOK_S if len(watched) == 1 else None)
        if woken in ready:
            os.read(woken, 512)
        status = reaped(child)
    kill_all()
    end_like(told[0] if told else status if status is not None else -signal.SIGKILL)


def started(command: list[str]) -> int:
    """Fork and execute; the child dies with this process whatever becomes of it."""
    keeper, child = os.getpid(), os.fork()
    if child:
        return child
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == keeper:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(LOST)


def reaped(child: int) -> int | None:
    """The child's exit code, negative for a signal; None while it lives. Orphans are reaped by the way."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return LOST
        if pid == child:
            return os.waitstatus_to_exitcode(status)
        if pid == 0:
            return None


def kill_all() -> None:
    """Kill children until there are none: those of a killed one become ours."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    while True:
        for word in listed.read_text().split():
            os.kill(int(word), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def end_like(code: int) -> NoReturn:
    """End with an exit code, or by a signal where it is one's number."""
    number = -code if code < 0 else 0
    if number:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        time.sleep(1)  # a signal that ends nobody
    os._exit(code & 0xFF)


def _sight_of(owner: int) -> list[int]:
    try:
        return [os.pidfd_open(owner)]
    except OSError:  # an older kernel, or it has just ended: getppid tells
        return []


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
