"""Slow baselines in the background: timed while nobody wants the GPU, a case at a time.

Owns when they are timed. A kernel that comes meanwhile waits for the case under way, no longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workbench.errors import DeviceError
from workbench.model import Case, Problem

QUIET_S = 3.0
"""How long nobody must have wanted the GPU."""

TimeCase = Callable[[Problem, Case], object]
"""Times the baselines of a case; blocks. Raises ``DeviceError``."""
Complete = Callable[[Problem], None]
"""Told that no case of a problem is left, those that failed included. Raises ``DeviceError``."""


class IdleTimes:
    """One thread that waits for quiet and then works through what was asked for."""

    def __init__(
        self, time_case: TimeCase, complete: Complete = lambda problem: None, quiet_s: float | None = None
    ) -> None:
        self._time_case, self._complete = time_case, complete
        self._quiet_s = QUIET_S if quiet_s is None else quiet_s
        self._changed = threading.Condition()
        self._asked: list[tuple[Problem, Case | None]] = []
        """In this order; after a problem's last case it stands there once without one."""
        self._seen: set[str] = set()
        self._busy = 0
        self._since = time.monotonic()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.failed: list[str] = []
        """What could not be timed, and why."""

    @contextmanager
    def occupied(self) -> Iterator[None]:
        """Somebody wants the GPU in here."""
        with self._changed:
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._since = time.monotonic()
                self._changed.notify_all()

    def ask(self, problem: Problem, cases: Callable[[], Iterator[Case]]) -> None:
        """Want the baselines of a problem; the first time only. ``cases`` says which are not known yet."""
        with self._changed:
            if problem.digest in self._seen or self._closed:
                return
            self._seen.add(problem.digest)
            self._asked += [*((problem, case) for case in cases()), (problem, None)]
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="slow baselines", daemon=True)
                self._thread.start()

    @property
    def wanted(self) -> tuple[int, int]:
        """How many want the GPU now, and how many cases wait for quiet."""
        with self._changed:
            return self._busy, sum(case is not None for _, case in self._asked)

    def close(self) -> None:
        """Begin nothing more; idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (one := self._next()) is not None:
            problem, case = one
            try:
                if case is None:
                    self._complete(problem)
                else:
                    self._time_case(problem, case)
            except DeviceError as error:
                what = case.label if case is not None else "held against its baselines"
                self.failed.append(f"{problem.name} {what}: {error}")

    def _next(self) -> tuple[Problem, Case | None] | None:
        with self._changed:
            while self._asked and not self._closed:
                rest = self._since + self._quiet_s - time.monotonic()
                if not self._busy and rest <= 0:
                    return self._asked.pop(0)
                self._changed.wait(max(rest, 0.01) if not self._busy else None)
            self._thread = None
            return None
