"""Updates are few, in order, and the last one always comes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from workbench.views.throttle import Throttle


class Clockwork:
    """Time that passes when told; remembers what is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        self.due.append((self.now + delay_s, act))

    def run_until(self, moment: float) -> None:
        while ready := [entry for entry in self.due if entry[0] <= moment]:
            entry = min(ready, key=lambda e: e[0])
            self.due.remove(entry)
            self.now = max(self.now, entry[0])
            entry[1]()
        self.now = moment


def test_the_first_is_shown_at_once_and_the_rest_in_steps() -> None:
    shown: list[tuple[float, int]] = []
    clock = Clockwork()
    throttle = Throttle[int](lambda v: shown.append((clock.now, v)), 0.1, clock.later, lambda: clock.now)
    for step in range(100):
        throttle.offer(step)
        clock.run_until(clock.now + 0.004)
    clock.run_until(10.0)
    assert shown[0] == (0.0, 0)
    assert shown[-1][1] == 99
    assert all(b[0] - a[0] >= 0.1 - 1e-9 for a, b in itertools.pairwise(shown))
    assert len(shown) <= 6


def test_flush_shows_what_waits_and_cancel_forgets_it() -> None:
    shown: list[int] = []
    clock = Clockwork()
    throttle = Throttle[int](shown.append, 0.1, clock.later, lambda: clock.now)
    throttle.offer(1)
    throttle.flush()
    throttle.flush()
    assert shown == [1]
    throttle.offer(2)
    throttle.cancel()
    throttle.offer(3)
    clock.run_until(10.0)
    assert shown == [1]


def test_with_a_real_timer_the_last_value_comes() -> None:
    last = threading.Event()
    throttle = Throttle[int](lambda v: last.set() if v == 9 else None, 0.001)
    for value in range(10):
        throttle.offer(value)
    assert last.wait(30)
