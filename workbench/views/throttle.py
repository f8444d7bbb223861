"""At most so many updates a second, the last one never lost. Owns a timer, knows nothing of views."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Later = Callable[[float, Callable[[], None]], None]


def timer(delay_s: float, act: Callable[[], None]) -> None:
    """Call ``act`` from a thread of its own after a delay."""
    thread = threading.Timer(delay_s, act)
    thread.daemon = True
    thread.start()


class Throttle(Generic[T]):
    """Passes the newest value on, at once after a quiet spell, else when the interval is over.

    ``offer`` returns at once and may be called from any thread; ``show`` runs on the timer's thread,
    one call at a time.
    """

    def __init__(
        self,
        show: Callable[[T], None],
        interval_s: float = 0.1,
        later: Later = timer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._show = show
        self._interval_s = interval_s
        self._later = later
        self._clock = clock
        self._guard = threading.Lock()
        self._showing = threading.RLock()
        self._newest: list[T] = []
        self._due = False
        self._cancelled = False
        self._last = -interval_s

    def cancel(self) -> None:
        """Forget what is waiting and take no more; nothing is shown once this has returned."""
        with self._guard:
            self._cancelled = True
            self._newest = []
        with self._showing:
            pass

    def offer(self, value: T) -> None:
        """Take note of a value; it is shown unless a newer one comes first."""
        with self._guard:
            if self._cancelled:
                return
            self._newest = [value]
            if self._due:
                return
            self._due = True
            delay = max(0.0, self._last + self._interval_s - self._clock())
        self._later(delay, self.flush)

    def flush(self) -> None:
        """Show what is waiting, now, on this thread."""
        with self._showing:
            with self._guard:
                waiting, self._newest, self._due = self._newest, [], False
                self._last = self._clock()
            for value in waiting:
                self._show(value)
