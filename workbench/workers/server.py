"""The fork-server process: waits for tasks, forks a child for each, ends what runs too long.

Owns the children: it alone kills and reaps them, and it leaves no process behind when the process
that started it goes away. Never runs a task itself, never forks beside a thread (a forked copy of a
process with threads may hang) and never reads what a child answers: that travels past it.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.workers import child
from workbench.workers.values import Limits

PR_SET_CHILD_SUBREAPER = 36
LARGEST_REQUEST = 2**20
PARENT_CHECK_S = 1.0
"""How often the server looks whether its parent still lives, should the socket not tell."""


@dataclass
class Task:
    """One forked child. ``status`` tells the caller how it ended; the caller's end closing means give up."""

    pid: int
    status: socket.socket
    deadline: float
    cpu_s: int
    scratch: Path
    expired: bool = False


class Server:
    """One loop over the control socket, the callers' status sockets and the end of children."""

    def __init__(self, control: socket.socket, scratch: Path, owner: int) -> None:
        self._control = control
        self._scratch = scratch
        self._parent = owner
        self._tasks: dict[int, Task] = {}
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._watch(control, self._accept)
        self._watch(self._wake, self._reap)
        for end in (self._wake, self._woken):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the wake-up socket is written
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)

    def _watch(self, source: socket.socket, action: Callable[[], None]) -> None:
        self._selector.register(source, selectors.EVENT_READ, action)

    def run(self) -> None:
        """Serve until the parent closes the control socket or dies; then end every child."""
        with suppress(EOFError):
            while os.getppid() == self._parent:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._kill_expired()
        self._end_all()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _end_all(self) -> None:
        for pid in self._tasks:
            _kill(pid)
        for pid in self._tasks:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)  # only then are its own children ours, and found
        self._tasks.clear()
        self._kill_strays()

    def _patience(self) -> float:
        nearest = min((t.deadline for t in self._tasks.values() if not t.expired), default=float("inf"))
        return max(0.0, min(PARENT_CHECK_S, nearest - time.monotonic()))

    def _kill_expired(self) -> None:
        now = time.monotonic()
        for task in self._tasks.values():
            if not task.expired and now >= task.deadline:
                task.expired = True
                _kill(task.pid)

    def _accept(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._control, LARGEST_REQUEST, 3)
        if not message:
            raise EOFError
        channel, output, status_fd = descriptors
        status = socket.socket(fileno=status_fd)
        try:
            self._start(json.loads(message), channel, output, status)
        except OSError as error:  # no more processes, no more disk
            _tell(status, {"failed": str(error)})
            status.close()
        finally:
            os.close(channel)
            os.close(output)

    def _start(self, request: dict[str, Any], channel: int, output: int, status: socket.socket) -> None:
        limits = Limits.model_validate(request["limits"])
        scratch = Path(tempfile.mkdtemp(dir=self._scratch))
        lasting = bool(request.get("lasting"))
        work = child.Work(request["function"], tuple(request["path"]), limits, scratch, lasting)
        pid = os.fork()
        if pid == 0:
            try:
                self._become_child(status)
                child.run(work, channel, output)
            finally:
                os._exit(child.NO_ANSWER)  # never back into the server's loop
        # The caller of a conversation watches over each request itself.
        deadline = float("inf") if lasting else time.monotonic() + limits.wall_s
        task = Task(pid, status, deadline, limits.cpu_s, scratch)
        self._tasks[pid] = task
        _tell(status, {"pid": pid})
        self._watch(status, lambda: self._abandon(task))

    def _become_child(self, status: socket.socket) -> None:
        """Drop everything that belongs to the server or to other children."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        others = [task.status for task in self._tasks.values()]
        for end in (status, self._control, self._wake, self._woken, *others):
            end.close()

    def _abandon(self, task: Task) -> None:
        """The caller has its answer, wants the child ended, or is gone."""
        if self._tasks.get(task.pid) is not task:  # reaped a moment ago, in the same turn of the loop
            return
        self._selector.unregister(task.status)
        with suppress(OSError):
            task.status.recv(16)  # left unread, it would reset the connection before the ending is told
        _kill(task.pid)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._wake.recv(4096):
                pass
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid in self._tasks:
                # Still a zombie, so its number cannot have been given to another process.
                _kill(ended.si_pid)
            _, status, usage = os.wait4(ended.si_pid, 0)
            if task := self._tasks.pop(ended.si_pid, None):
                self._finish(task, status, usage.ru_utime + usage.ru_stime)

    def _finish(self, task: Task, status: int, cpu_s: float) -> None:
        code = os.waitstatus_to_exitcode(status)
        killed_for_cpu = code == -signal.SIGXCPU or (code == -signal.SIGKILL and cpu_s >= task.cpu_s)
        expired = "wall" if task.expired else "cpu" if killed_for_cpu else ""
        with suppress(KeyError):
            self._selector.unregister(task.status)
        self._kill_strays()
        _tell(task.status, {"code": code, "expired": expired})
        task.status.close()
        shutil.rmtree(task.scratch, ignore_errors=True)

    def _kill_strays(self) -> None:
        """End grandchildren that left their session; as sub-reaper the server inherits them."""
        with suppress(OSError):  # a kernel without this file leaves them to their own limits
            listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
            for pid in {int(word) for word in listed.split()} - self._tasks.keys():
                with suppress(OSError):
                    if os.getsid(pid) not in self._tasks:
                        _kill(pid)


def _kill(pid: int) -> None:
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _tell(status: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):  # the caller is gone
        status.send(json.dumps(message).encode())


class _Watch(threading.Thread):
    """Ends this process when its owner has gone, as long as it does nothing but import."""

    def __init__(self, owner: int, scratch: Path) -> None:
        super().__init__(daemon=True)
        self._owner, self._scratch = owner, scratch
        self._over = threading.Event()

    def run(self) -> None:
        """Look, five times a second."""
        while not self._over.wait(0.2 * PARENT_CHECK_S):
            if os.getppid() != self._owner:
                shutil.rmtree(self._scratch, ignore_errors=True)
                os._exit(child.NO_ANSWER)

    def end(self) -> None:
        """Be gone: from now on the process may be forked."""
        self._over.set()
        self.join()
        # Python has done with a thread a moment before the kernel has.
        gone = time.monotonic() + PARENT_CHECK_S
        while _threads() > 1 and time.monotonic() < gone:
            time.sleep(0.0005)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _preload(entry: str) -> None:
    module, _, function = entry.partition(":")
    loaded = importlib.import_module(module)
    if function:
        getattr(loaded, function)()


def main(config: dict[str, Any]) -> None:
    """Entry of the process; ``config`` has ``control`` (descriptor), ``scratch``, ``preload``, ``owner``."""
    control = socket.socket(fileno=config["control"])
    control.set_inheritable(False)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    watch = _Watch(config["owner"], Path(config["scratch"]))
    watch.start()
    try:
        for entry in config["preload"]:
            _preload(entry)
        watch.end()
        if (threads := _threads()) != 1:
            raise RuntimeError(
                f"{threads} threads run after importing {config['preload']}; forking needs one"
            )
    except BaseException:
        control.send(json.dumps({"failed": traceback.format_exc(limit=-3)}).encode())
        return
    gc.collect()
    gc.freeze()  # children share the modules' memory instead of copying it at their first collection
    server = Server(control, Path(config["scratch"]), config["owner"])
    control.send(b"{}")
    server.run()
