"""The caller's side of one call: send the payload, collect messages, answer, output and ending.

Owns how a child's end becomes a ``Result``. Never starts or kills a process: closing its sockets
tells the server that the call is over.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import DeviceError
from workbench.workers import frames
from workbench.workers.values import Died, Expired, Limits, Raised, Result, Returned

TAIL_BYTES = 8192
CHUNK_BYTES = 2**18
DRAIN_CHUNKS = 4096
"""Most chunks read after a child has ended; a process that escaped may still be writing."""
PATIENCE_S = 15.0
"""How long past the deadline the server may take to report an ending."""


class ServerLost(Exception):
    """The fork-server ended or hangs; the call has no answer. ``pid`` is the child, if it was started."""

    def __init__(self, reason: str, pid: int | None = None) -> None:
        super().__init__(reason)
        self.pid = pid


@dataclass
class Ends:
    """Descriptors of one call; ours stay here, theirs go to the server."""

    channel: socket.socket
    output: int
    status: socket.socket
    theirs: list[int]

    @classmethod
    def open(cls) -> Ends:
        """Make the channel (answers), the output pipe and the status socket."""
        channel, their_channel = socket.socketpair()
        status, their_status = socket.socketpair(type=socket.SOCK_SEQPACKET)
        output, their_output = os.pipe()
        for number in (channel.fileno(), output, status.fileno()):
            os.set_blocking(number, False)
        return cls(channel, output, status, [their_channel.detach(), their_output, their_status.detach()])

    def release_theirs(self) -> None:
        """Close the server's ends here, so that their closing there is seen."""
        while self.theirs:
            os.close(self.theirs.pop())

    def close(self) -> None:
        """Close everything; the server takes it as the order to kill the child."""
        self.release_theirs()
        self.channel.close()
        self.status.close()
        os.close(self.output)


@dataclass
class Exchange:
    """Drives one call from the calling thread until it has a result."""

    ends: Ends
    limits: Limits
    unsent: memoryview
    """Frame with the payload."""
    reader: frames.FrameReader
    on_message: Callable[[bytes], None] | None
    result: Result | None = None
    ending: dict[str, Any] | None = None
    pid: int | None = None
    tail: bytearray = field(default_factory=bytearray)

    def run(self) -> Result:
        """Return how the call ended. Raises ``ServerLost``; what ``on_message`` raises passes through."""
        if not self.listen(self.limits.wall_s + PATIENCE_S):
            raise ServerLost("the worker server does not answer", self.pid)
        return self.conclusion()

    def listen(self, seconds: float) -> bool:
        """Send and take what comes until there is a result or an ending; False when time runs out first."""
        give_up = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            sending = selectors.EVENT_WRITE if len(self.unsent) else 0
            selector.register(self.ends.channel, selectors.EVENT_READ | sending)
            selector.register(self.ends.output, selectors.EVENT_READ)
            selector.register(self.ends.status, selectors.EVENT_READ)
            while self.result is None and self.ending is None:
                left = give_up - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    return False
                for key, events in ready:
                    self._handle(selector, key, events)
        return True

    def conclusion(self) -> Result:
        """What the answer or the ending means, once ``listen`` has returned True."""
        self._drain()
        return self.result or self._judge(self.ending or {})

    def _handle(self, selector: selectors.BaseSelector, key: selectors.SelectorKey, events: int) -> None:
        if key.fileobj is self.ends.status:
            self._read_status()
        elif key.fileobj is self.ends.channel:
            if events & selectors.EVENT_WRITE and not self._write_payload():
                selector.modify(self.ends.channel, selectors.EVENT_READ)
            if events & selectors.EVENT_READ and not self._read_channel():
                selector.unregister(self.ends.channel)
        elif not self._read_output():
            selector.unregister(self.ends.output)

    def _write_payload(self) -> bool:
        """Send what the channel takes; False when there is no more to send."""
        with suppress(BlockingIOError):
            try:
                self.unsent = self.unsent[self.ends.channel.send(self.unsent[:CHUNK_BYTES]) :]
            except (BrokenPipeError, ConnectionResetError):
                return False
        return len(self.unsent) > 0

    def _read_channel(self) -> bool:
        """Take frames; False at the end of the channel."""
        try:
            data = self.ends.channel.recv(CHUNK_BYTES)
        except ConnectionResetError:  # it ended without reading all of the payload
            return False
        try:
            for kind, body in self.reader.feed(data):
                self._take(kind, body)
        except (frames.GarbledChannel, ValueError) as garbled:
            self.result = Died(message=str(garbled), stderr_tail=self._tail_text())
        return bool(data)

    def _take(self, kind: bytes, body: bytes) -> None:
        if self.result is not None:
            return
        if kind == frames.RETURNED:
            self.result = Returned(payload=body)
        elif kind == frames.RAISED:
            self.result = Raised.model_validate_json(body)
        elif kind == frames.MESSAGE and self.on_message is not None:
            self.on_message(body)

    def _read_output(self) -> bool:
        data = os.read(self.ends.output, CHUNK_BYTES)
        self.tail += data
        del self.tail[:-TAIL_BYTES]
        return bool(data)

    def _read_status(self) -> None:
        try:
            data = self.ends.status.recv(CHUNK_BYTES)
        except ConnectionResetError:  # told once, when our order crossed the ending, which is still to come
            return
        if not data:
            raise ServerLost("the worker server ended", self.pid)
        message = json.loads(data)
        if "failed" in message:
            raise DeviceError(f"no worker could be started: {message['failed']}; close other programs")
        if "pid" in message:
            self.pid = message["pid"]
        else:
            self.ending = message

    def _drain(self) -> None:
        """After the end: what is still in the channel and the pipe."""
        with suppress(BlockingIOError):
            for _ in range(DRAIN_CHUNKS):
                if self.result is not None or not self._read_channel():
                    break
        if not isinstance(self.result, Returned):
            with suppress(BlockingIOError):
                for _ in range(DRAIN_CHUNKS):
                    if not self._read_output():
                        break

    def _judge(self, ending: dict[str, Any]) -> Result:
        code = int(ending["code"])
        if ending["expired"] == "wall":
            return Expired(limit_s=self.limits.wall_s)
        if ending["expired"] == "cpu":
            return Expired(limit_s=self.limits.cpu_s, clock="cpu")
        if code >= 0:
            message = f"the process ended with exit code {code} and without an answer"
            return Died(exit_code=code, message=message, stderr_tail=self._tail_text())
        name = signal.Signals(-code).name
        return Died(signal=name, message=_EXPLAINED.get(name, f"the process was ended by {name}"),
                    stderr_tail=self._tail_text())  # fmt: skip

    def _tail_text(self) -> str:
        return self.tail.decode(errors="replace")


_EXPLAINED = {
    "SIGSEGV": "the process crashed: invalid memory access (SIGSEGV)",
    "SIGBUS": "the process crashed: invalid memory access (SIGBUS)",
    "SIGABRT": "the process aborted itself (SIGABRT)",
    "SIGFPE": "the process crashed: arithmetic error such as an integer division by zero (SIGFPE)",
    "SIGILL": "the process crashed: illegal instruction (SIGILL)",
    "SIGKILL": "the process was killed from outside; the machine may be out of memory (SIGKILL)",
}
