"""The trusted side's handle on the sandboxed process: start, ask, watch, end.

Owns the channel, its deadlines and the count of processes. Everything that arrives is untrusted: an
answer must carry the question's own number, and is validated by whoever asked.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from workbench.foreign import sandbox
from workbench.foreign.values import Allowance, Fence, printable
from workbench.workers import frames

PR_SET_CHILD_SUBREAPER = 36
TAIL_BYTES = 4096
WATCH_S = 0.02
LARGEST_ANSWER = 2**20
LOOKS = 8
"""How often a process that seems busy is looked at before it is called so."""

Serve = Callable[[socket.socket, bytes, tuple[Fence, ...]], None]


class Ended(Exception):
    """The process is gone, or was ended; the message says why, in a line."""

    def __init__(self, message: str, expired_s: float | None = None) -> None:
        super().__init__(message)
        self.expired_s = expired_s


class Inmate:
    """One sandboxed process. Use as a context: leaving it ends everything inside."""

    def __init__(self, serve: Serve, allowance: Allowance) -> None:
        """Fork at once, so that what is loaded into this process later never gets inside."""
        self.allowance = allowance
        self._deadline = time.monotonic() + allowance.wall_s
        self._nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._reader = frames.FrameReader(self._nonce)
        self._tail = bytearray()
        self._scratch = Path(tempfile.mkdtemp(prefix="solution-"))
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._channel, theirs = socket.socketpair()
        self._output, their_output = os.pipe()
        owner = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(serve, theirs, their_output, owner)
        theirs.close()
        os.close(their_output)
        for number in (self._channel.fileno(), self._output):
            os.set_blocking(number, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._channel, selectors.EVENT_READ)
        self._selector.register(self._output, selectors.EVENT_READ)

    def _become(self, serve: Serve, channel: socket.socket, output: int, owner: int) -> None:
        os.setsid()
        for number in (1, 2):
            os.dup2(output, number)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        last = os.sysconf("SC_OPEN_MAX")
        os.closerange(3, channel.fileno())
        os.closerange(channel.fileno() + 1, last)
        sandbox.enter(
            self._scratch, self.allowance, owner, lambda fences: serve(channel, self._nonce, fences)
        )

    def __enter__(self) -> Inmate:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # -------------------------------------------------------------------------------- asking

    def ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Send a question, return the answer. Raises ``Ended``."""
        number = secrets.token_hex(8)
        body = json.dumps({**question, "number": number}).encode()
        self._send(frames.encode(self._nonce, frames.MESSAGE, body), seconds)
        answer = self.hear(seconds)
        if answer.pop("number", None) != number:
            self._refuse("an answer came that nobody had asked for")
        return answer

    def hear(self, seconds: float) -> dict[str, Any]:
        """Wait for the next message. Raises ``Ended``."""
        until = min(time.monotonic() + seconds, self._deadline)
        while True:
            for key, _ in self._selector.select(WATCH_S):
                if key.fileobj is self._channel:
                    message = self._take()
                    if message is not None:
                        return message
                elif not self._drain():
                    self._selector.unregister(self._output)
            if self.processes() > self.allowance.processes:
                self._refuse(f"it started more than {self.allowance.processes} processes and threads")
            if time.monotonic() > until:
                self.end()
                raise Ended("no answer in time", expired_s=seconds)

    def _send(self, data: bytes, seconds: float) -> None:
        view, until = memoryview(data), time.monotonic() + seconds
        while len(view):
            try:
                view = view[self._channel.send(view) :]
            except BlockingIOError:
                if time.monotonic() > until:
                    self._refuse("it stopped listening")
                time.sleep(0.001)
            except OSError:
                raise Ended(self._obituary()) from None

    def _take(self) -> dict[str, Any] | None:
        data = b""
        with suppress(ConnectionResetError):  # it ended without reading all of the question
            data = self._channel.recv(2**16)
        if not data:
            raise Ended(self._obituary())
        try:
            found = self._reader.feed(data)
            if not found:
                return None
            (_, body), *more = found
            message = json.loads(body) if len(body) <= LARGEST_ANSWER and not more else None
        except (frames.GarbledChannel, ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._refuse("its answer was garbled")
        return message

    def _drain(self) -> bool:
        with suppress(BlockingIOError):
            data = os.read(self._output, 2**16)
            self._tail += data
            del self._tail[:-TAIL_BYTES]
            return bool(data)
        return True

    # -------------------------------------------------------------------------------- watching

    def _inside(self) -> Iterator[int]:
        """Numbers of the processes that run what the solution started, its own process first."""
        waiting = [pid for keeper in _children(self._pid) for pid in _children(keeper)]
        while waiting:
            pid = waiting.pop(0)
            yield pid
            waiting += _children(pid)

    def processes(self) -> int:
        """Processes and threads inside, the solution's own process included."""
        return sum(len(_tasks(pid)) for pid in self._inside())

    def others(self) -> int:
        """Processes beside the solution's own."""
        return len(list(self._inside())) - 1

    def still_busy(self, pause_s: float = 0.02) -> bool:
        """True when a thread other than the main one goes on using the processor although no call runs.

        A pool's threads may take a moment to fall asleep, longer where the machine is busy: a thread
        counts that ran, or waited to run, every time it was looked at.
        """
        own = next(iter(self._inside()), None)
        return own is not None and all(_awake(own, pause_s) for _ in range(LOOKS))

    # -------------------------------------------------------------------------------- ending

    def _refuse(self, why: str) -> None:
        self.end()
        raise Ended(f"the process was ended: {why}")

    def _obituary(self) -> str:
        """How it ended, and the last line it wrote."""
        code = self.end()
        for _ in range(64):
            try:
                if not self._drain():
                    break
            except OSError:
                break
        lines = [line.strip() for line in self._tail.decode(errors="replace").splitlines() if line.strip()]
        said = f" ({printable(lines[-1][:200])})" if lines else ""
        if code > 128:
            with suppress(ValueError):
                return f"the process was ended by {signal.Signals(code - 128).name}{said}"
        return f"the process ended with exit code {code} and without an answer{said}"

    def end(self) -> int:
        """Kill whatever is inside and return the exit code; idempotent."""
        if self._pid == 0:
            return 0
        code = self._await_end(0.5)
        inside = [*self._inside(), *_children(self._pid)]
        for pid in (*inside, self._pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if code is None:
            self._reap()
        for pid in _children(os.getpid()):  # orphans come here where the inside has no numbers of its own
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self._pid = 0
        _reap_orphans()
        self._channel.close()
        shutil.rmtree(self._scratch, ignore_errors=True)
        return 137 if code is None else code

    def _await_end(self, seconds: float) -> int | None:
        """The exit code, where the process ends by itself within a moment; else None."""
        self._channel.shutdown(socket.SHUT_RDWR) if self._channel.fileno() >= 0 else None
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        return None

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in _tasks(pid):
        with suppress(OSError):
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def _tasks(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    return []


def _awake(pid: int, pause_s: float) -> bool:
    """True when some thread beside the main one ran during the pause, or still waits to run after it."""
    before = {task: _ran_ns(pid, task) for task in _tasks(pid) if task != pid}
    time.sleep(pause_s)
    return any(
        _runnable(pid, task) or _ran_ns(pid, task) > before.get(task, 0)
        for task in _tasks(pid)
        if task != pid
    )


def _runnable(pid: int, task: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


def _ran_ns(pid: int, task: int) -> int:
    """Time on the processor, nanoseconds (first word of ``schedstat``)."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
    return 0


def _reap_orphans() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
