"""One process that holds a GPU, and a warm one behind it that takes over when a kernel breaks the first.

Owns who may ask (one at a time), when a process is given up, and the warming of the next one. Knows nothing
of CUDA: what warming means and what an answer costs is told from outside.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from workbench.devices.turns import Place, Turns
from workbench.errors import DeviceError
from workbench.referee.gpu_judge import Loss, Payload
from workbench.workers import Conversation, Result, Returned

CLOSED = "the cuda device is closed; open another session"
WARM_S = 180.0
"""Longest time a process may take to make its context, on a cold disk."""


class _Worker:
    """One process, warming up in the background from the moment it is made."""

    def __init__(self, open_one: Callable[[], Conversation], warm: bytes) -> None:
        self._open, self._request = open_one, warm
        self._ready = threading.Event()
        self._conversation: Conversation | None = None
        self._given_up = False
        self.warmed: bytes = b""
        self.failed: str = ""
        self.warm_s = 0.0
        self.was_asked = False
        """Whether it was asked for anything but to be warm."""
        threading.Thread(target=self._warm, name="warming", daemon=True).start()

    def _warm(self) -> None:
        started = time.perf_counter()
        try:
            self._conversation = self._open()
            result = self._conversation.ask(self._request, WARM_S)
            if isinstance(result, Returned):
                self.warmed = result.payload
            else:
                self.failed = str(getattr(result, "message", "")) or f"no context within {WARM_S:g} s"
        except Exception as error:
            self.failed = str(error)
        self.warm_s = time.perf_counter() - started
        if (self.failed or self._given_up) and self._conversation is not None:
            self._conversation.close()
        self._ready.set()

    @property
    def over(self) -> bool:
        return self._ready.is_set() and (self._conversation is None or self._conversation.over)

    def wait(self) -> None:
        """Until it is warm, or failed to be."""
        self._ready.wait()

    def talk(self) -> Conversation:
        """The warm conversation. Raises ``DeviceError`` with the reason there is none."""
        self._ready.wait()
        if self.failed or self._conversation is None:
            raise DeviceError(f"no process could get the GPU: {self.failed}")
        return self._conversation

    def give_up(self, wait: bool) -> None:
        """End the process; with ``wait`` return once it is gone."""
        self._given_up = True
        if self._conversation is not None:
            if wait:
                self._conversation.end()
            self._conversation.close()


@dataclass(frozen=True)
class Request:
    """What a process is asked; see ``Asking``."""

    payload: Payload
    wall_s: float
    loss: Callable[[Result], Loss]
    on_message: Callable[[bytes], None] | None = None
    quiet: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Seat:
    """Whoever asks the pair from one place in its queue, as often as it likes."""

    pair: WarmPair
    place: Place

    def ask(
        self,
        payload: Payload,
        wall_s: float,
        loss: Callable[[Result], Loss],
        on_message: Callable[[bytes], None] | None = None,
        quiet: bool = False,
        fresh: bool = False,
    ) -> Result:
        """See ``Asking``."""
        return self.pair.asked(self.place, Request(payload, wall_s, loss, on_message, quiet, fresh))


class WarmPair:
    """See the module. Thread-safe; both processes begin to warm up at once."""

    def __init__(self, open_one: Callable[[], Conversation], warm: bytes, first: bytes | None = None) -> None:
        """``warm`` is the request that warms a process up; ``first`` that of the very first one."""
        self._open, self._warm = open_one, warm
        self._turns = Turns()
        self._closed = False
        self._current = _Worker(open_one, first or warm)
        self._spare: _Worker | None = None
        self.losses = 0
        """Processes given up so far."""
        self.takeovers_s: list[float] = []
        """Seconds from each loss until another warm process was in its place."""

    def warmed(self) -> bytes:
        """What the process in use answered when it was warmed up; waits for it. Raises ``DeviceError``."""
        current = self._current
        current.talk()
        return current.warmed

    @property
    def warm_s(self) -> float:
        """Seconds the process in use took to be warm; 0 while it is not."""
        return self._current.warm_s

    def ask(
        self,
        payload: Payload,
        wall_s: float,
        loss: Callable[[Result], Loss],
        on_message: Callable[[bytes], None] | None = None,
        quiet: bool = False,
        fresh: bool = False,
    ) -> Result:
        """See ``Asking``. A process found dead before it was asked is replaced, and the next one asked."""
        return self.seat().ask(payload, wall_s, loss, on_message, quiet, fresh)

    def seat(self, last: bool = False) -> Seat:
        """A place in the queue that is kept from request to request: a kernel begun is ended first.

        With ``last`` it is behind everybody, whenever they come.
        """
        return Seat(self, self._turns.place(last))

    def asked(self, place: Place, request: Request) -> Result:
        """One request at its place in the queue."""
        with self._turns.turn(place):
            if request.fresh and self._current.was_asked and not self._closed:
                self._replace(wait=False)
            talk = self._ready()
            self._current.was_asked = True
            if request.quiet and self._spare is not None:
                self._spare.wait()
            payload = request.payload() if callable(request.payload) else request.payload
            result = talk.ask(payload, request.wall_s, request.on_message)
            if self._closed:  # whatever ended the process, it was not the kernel
                raise DeviceError(CLOSED)
            cost = request.loss(result)
            if cost != "none" or talk.over:
                self._replace(wait=cost == "running")
            return result

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody is asked in here: the card is another program's for a while."""
        with self._turns.turn(self._turns.place()):
            yield

    def close(self) -> None:
        """End both processes; idempotent."""
        self._closed = True
        self._current.give_up(wait=False)
        if self._spare is not None:
            self._spare.give_up(wait=False)

    def _ready(self) -> Conversation:
        if self._closed:
            raise DeviceError(CLOSED)
        if self._current.over:
            self._replace(wait=False)
        try:
            talk = self._current.talk()
        except DeviceError:
            # Once more: another process may have held the card for a moment.
            self._current = _Worker(self._open, self._warm)
            talk = self._current.talk()
        if self._spare is None or self._spare.over:
            self._spare = _Worker(self._open, self._warm)
        return talk

    def _replace(self, wait: bool) -> None:
        """The spare takes over at once; the old process ends beside it, unless it still occupies the GPU."""
        started = time.perf_counter()
        old, self.losses = self._current, self.losses + 1
        if wait:
            old.give_up(wait=True)
        else:
            threading.Thread(target=_end, args=(old,), name="ending", daemon=True).start()
        spare = self._spare or _Worker(self._open, self._warm)
        spare.wait()
        self._current, self._spare = spare, None
        self.takeovers_s.append(time.perf_counter() - started)
        if not self._closed:
            self._spare = _Worker(self._open, self._warm)


def _end(worker: _Worker) -> None:
    with suppress(OSError):
        worker.give_up(wait=False)
