"""Many calls to one child that stays: ask, get an answer, ask again.

Owns the caller's side of a lasting child: a deadline for each request, and what becomes of the child
when one is missed. Never starts another child: whoever holds a conversation decides what comes after it.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from workbench.workers import frames
from workbench.workers.exchange import PATIENCE_S, Ends, Exchange, ServerLost
from workbench.workers.values import Died, Expired, Limits, Result

NO_PAYLOAD = memoryview(b"")
END = b"end"
"""To the server: anything on the status socket is the order to end the child."""


class Conversation:
    """Requests and answers with one child, one request at a time; made by ``ForkServer.open``.

    A child that died or missed a deadline is over: every later request gets the same result again.
    """

    def __init__(self, ends: Ends, limits: Limits) -> None:
        self._ends = ends
        self._limits = limits
        self._nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._asking = threading.Lock()
        self._exchange = Exchange(ends, limits, NO_PAYLOAD, frames.FrameReader(self._nonce), None)
        self._over: Result | None = None
        self._closed = False
        self._released = False

    @property
    def pid(self) -> int | None:
        """Process number of the child, known from the first answer on."""
        return self._exchange.pid

    @property
    def over(self) -> bool:
        """True once the child is known to have ended, or the conversation was closed."""
        return self._over is not None or self._closed

    def ask(
        self, payload: bytes, wall_s: float | None = None, on_message: Callable[[bytes], None] | None = None
    ) -> Result:
        """Have the child answer one payload within ``wall_s`` seconds (else the limits' own).

        ``Returned`` and ``Raised`` leave the child ready for the next request; after ``Died`` and
        ``Expired`` it is gone, and with it every process it started. What ``on_message`` raises passes
        through and ends the child.
        """
        with self._asking:
            if self._closed:
                return Died(message="the worker was ended before it was asked")
            if self._over is None:
                return self._asked(payload, self._limits.wall_s if wall_s is None else wall_s, on_message)
            return self._over

    def end(self) -> None:
        """End the child and wait until it is gone: whatever it held, such as a GPU, is then free."""
        with self._asking:
            if self._over is None and not self._closed:
                self._over = Died(message="the worker was ended")
                self._end()

    def close(self) -> None:
        """End the child; idempotent. A request in flight in another thread is ended first."""
        self._closed = True
        with suppress(OSError):
            self._ends.status.send(END)
        with self._asking:
            if not self._released:
                self._released = True
                self._ends.close()

    def _asked(self, payload: bytes, wall_s: float, on_message: Callable[[bytes], None] | None) -> Result:
        frame = memoryview(frames.encode(self._nonce, frames.PAYLOAD, payload))
        self._exchange = replace(
            self._exchange, unsent=frame, on_message=on_message, result=None, ending=None, tail=bytearray()
        )
        result: Result = Died(message="the request was broken off")
        try:
            answered = self._exchange.listen(wall_s)
            result = self._exchange.conclusion() if answered else Expired(limit_s=wall_s)
        except ServerLost as lost:
            result = Died(message=str(lost))
        finally:
            if isinstance(result, Died | Expired):
                self._over = result
                self._end()
        return result

    def _end(self) -> None:
        """Have the server end the child, and wait until it is gone: it may hold a device."""
        exchange = self._exchange
        try:
            while exchange.ending is None:
                self._ends.status.send(END)
                exchange.result = None  # an answer that comes too late
                if not exchange.listen(PATIENCE_S):
                    break
        except (OSError, ServerLost):
            pass
        if exchange.ending is None and exchange.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(exchange.pid, signal.SIGKILL)
