"""Who is next on a card: one at a time, and of those who wait the one that came first of all.

Owns places in a queue that outlast a turn. A kernel's requests keep the place of its first one, so that a
kernel that is nearly judged does not wait behind one that has just begun.
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager

Place = tuple[bool, int]
"""Behind everybody, and number in the queue."""


class Turns:
    """A lock whose waiters are served in the order of their places."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[Place] = []
        self._taken = False

    def place(self, last: bool = False) -> Place:
        """The next place; with ``last`` one behind all that are not, whenever they come."""
        return last, next(self._numbers)

    @contextmanager
    def turn(self, place: Place) -> Iterator[None]:
        """Wait for this place's turn; it ends with the block. A place has one turn at a time."""
        with self._changed:
            bisect.insort(self._waiting, place)
            self._changed.wait_for(lambda: not self._taken and self._waiting[0] == place)
            self._waiting.pop(0)
            self._taken = True
        try:
            yield
        finally:
            with self._changed:
                self._taken = False
                self._changed.notify_all()
