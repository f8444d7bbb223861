"""The caller's handle on a fork-server: start it clean, hand it tasks, replace it once if it dies.

Owns the server process. Never imports what the server preloads, and never re-runs the caller's main
module (a notebook has none that could be).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from workbench.errors import DeviceError
from workbench.workers import frames
from workbench.workers.conversation import Conversation
from workbench.workers.environment import scrubbed
from workbench.workers.exchange import Ends, Exchange, ServerLost
from workbench.workers.values import Limits, Result

T = TypeVar("T")
START_S = 180.0
"""Longest time a server may take to import what it preloads, on a cold disk."""
BOOT = (
    "import sys, json; config = json.loads(sys.argv[1]); sys.path[:] = config['path'];"
    "from workbench.workers.server import main; main(config)"
)


class ForkServer:
    """Runs functions in disposable children. Thread-safe; starts at the first call.

    ``preload`` names modules the server imports once, so that every child has them at once, or
    ``module:function`` to call once in the server. They must not start threads.
    """

    def __init__(self, preload: tuple[str, ...]) -> None:
        self.preload = preload
        self._lock = threading.Lock()
        self._server: _Server | None = None

    def call(
        self,
        function: str,
        payload: bytes,
        limits: Limits,
        on_message: Callable[[bytes], None] | None = None,
    ) -> Result:
        """Run ``package.module:name`` on ``payload`` in a fresh child and wait for its end.

        The function takes the payload, and if it likes a ``send(bytes)`` for progress, and returns
        bytes. It runs in a private scratch folder with the caller's ``sys.path``. Whatever the
        child does is a ``Result``; ``DeviceError`` means that no child could be had.
        """
        return self._tried(lambda server: server.call(function, payload, limits, on_message))

    def open(self, function: str, limits: Limits) -> Conversation:
        """Start a child that answers one payload after the other with ``package.module:name``.

        The function is called as in ``call``, in the same process every time, so that what it keeps in
        its module lasts. ``limits.wall_s`` is for one request, the other limits for the whole life of the
        child. Close the conversation to end the child. Raises ``DeviceError``.
        """
        return self._tried(lambda server: server.open(function, limits))

    def _tried(self, work: Callable[[_Server], T]) -> T:
        """Do it with the running server, or once more with a new one."""
        for _ in range(2):
            server = self._running()
            try:
                return work(server)
            except ServerLost as error:
                lost = error
                self._discard(server)
                if server.closed:
                    break
        raise DeviceError(f"{lost}; see whether the machine has memory and disk space left")

    def close(self) -> None:
        """End the server and its children; idempotent. A later call starts a new one."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.closed = True
            server.end()

    def _running(self) -> _Server:
        with self._lock:
            if self._server is None or self._server.owner != os.getpid():
                self._server = _Server(self.preload)
            return self._server

    def _discard(self, server: _Server) -> None:
        with self._lock:
            if self._server is server:
                self._server = None
        server.end()


class _Server:
    """One server process and the control socket to it."""

    def __init__(self, preload: tuple[str, ...]) -> None:
        self.owner = os.getpid()
        self.closed = False
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        self._scratch = Path(tempfile.mkdtemp(prefix="workbench-"))
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self._process = self._spawn(preload, theirs.fileno())
        self._control.settimeout(START_S)
        self._await_ready()

    def _spawn(self, preload: tuple[str, ...], control: int) -> subprocess.Popen[bytes]:
        config = {
            "path": _module_path(),
            "control": control,
            "scratch": str(self._scratch),
            "preload": preload,
            "owner": os.getpid(),
        }
        with self._log.open("wb") as log:
            # -P: no file of the current folder may pose as a module before the path is set.
            return subprocess.Popen(
                [sys.executable, "-P", "-c", BOOT, json.dumps(config)],
                env=scrubbed(os.environ),
                pass_fds=(control,),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._scratch,
                start_new_session=True,
            )

    @property
    def _log(self) -> Path:
        return self._scratch / "server.log"

    def _await_ready(self) -> None:
        try:
            answer = self._control.recv(2**20)
        except OSError:
            answer = b""
        reason = json.loads(answer).get("failed") if answer else self._log.read_text(errors="replace")[-2000:]
        if reason is not None:
            self.end()
            raise DeviceError(f"the worker server did not start: {reason.strip() or 'no reason given'}")

    def call(
        self, function: str, payload: bytes, limits: Limits, on_message: Callable[[bytes], None] | None
    ) -> Result:
        """Like ``ForkServer.call``, but raises ``ServerLost``."""
        nonce = secrets.token_bytes(frames.NONCE_BYTES)
        frame = memoryview(frames.encode(nonce, frames.PAYLOAD, payload))
        request = {"function": function, "path": _module_path(), "limits": limits.model_dump()}
        ends = Ends.open()
        try:
            self._send(request, ends)
            return Exchange(ends, limits, frame, frames.FrameReader(nonce), on_message).run()
        except ServerLost as lost:
            if lost.pid is not None:
                with suppress(ProcessLookupError):
                    os.killpg(lost.pid, signal.SIGKILL)
            raise
        finally:
            ends.close()

    def open(self, function: str, limits: Limits) -> Conversation:
        """Like ``ForkServer.open``, but raises ``ServerLost``."""
        ends = Ends.open()
        request = {
            "function": function,
            "path": _module_path(),
            "limits": limits.model_dump(),
            "lasting": True,
        }
        try:
            self._send(request, ends)
        except ServerLost:
            ends.close()
            raise
        return Conversation(ends, limits)

    def _send(self, request: dict[str, Any], ends: Ends) -> None:
        try:
            with self._sending:
                socket.send_fds(self._control, [json.dumps(request).encode()], ends.theirs)
        except OSError as error:
            raise ServerLost(f"the worker server is gone ({error})") from error
        ends.release_theirs()

    def end(self) -> None:
        """Stop the process and remove its scratch folder; idempotent."""
        with self._ending:
            self._control.close()
            if self.owner != os.getpid():
                return
            try:
                self._process.wait(2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            shutil.rmtree(self._scratch, ignore_errors=True)


def _module_path() -> list[str]:
    """The caller's module path with the current folder spelt out: children live elsewhere."""
    return [str(Path(entry).absolute()) for entry in sys.path]
