"""While a problem is being opened: says that something takes long, and ends code that does not come back.

Owns the clock and its words. Runs in the main thread of a worker child, the only place where a signal
finds the person's line.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType

from workbench.problem.lines import is_persons

TICK_S = 5.0
"""How often a stage that goes on is told of."""
MOST_CPU_S = 20.0
MOST_WALL_S = 300.0
"""Limits of what the person's code takes in a stage that runs it, as seen at the ticks; what is drawn for it
is not counted. Processor time is the first, so that a busy machine ends nothing; the second is for code that
sleeps."""
RUNS_CODE = ("reading the cell", "reading the file", "running the reference")
"""Stages that run the person's code as it is. Tracing is the others' work, also where a line of it waits."""


class TookTooLong(BaseException):
    """Ends the person's code; no ``except Exception`` on the way may keep it."""


class Patience:
    """A context in which stages are told; ``tell`` begins one."""

    def __init__(self, send: Callable[[str], None], tick_s: float = TICK_S) -> None:
        self._send = send
        self._tick_s = tick_s
        self._stage = ""
        self._began = self._wall = self._cpu = 0.0
        self._seen = 0.0, 0.0

    def tell(self, stage: str) -> None:
        """Say what is done next."""
        self._stage, self._wall, self._cpu = stage, 0.0, 0.0
        self._began, _ = self._seen = time.monotonic(), time.process_time()
        self._send(stage)

    def __enter__(self) -> Patience:
        self._before = signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, self._tick_s, self._tick_s)
        return self

    def __exit__(self, kind: object, error: object, trace: TracebackType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _tick(self, number: int, frame: FrameType | None) -> None:
        now, cpu = time.monotonic(), time.process_time()
        wall = now - self._began
        if wall < self._tick_s / 2:
            return
        where = _persons_line(frame)
        if where:
            self._wall += now - self._seen[0]
            self._cpu += cpu - self._seen[1]
        self._seen = now, cpu
        if self._stage in RUNS_CODE and (self._cpu > MOST_CPU_S or self._wall > MOST_WALL_S):
            raise TookTooLong(
                f"{where}still running after {wall:.0f} s of {self._stage}. Is there an endless loop?\n"
                "Otherwise give it less to do: smaller inputs, fewer layers, no training or downloads."
            )
        self._send(f"{self._stage}, {wall:.0f} s so far" + (f" (at {where[:-2]})" if where else ""))


def _persons_line(frame: FrameType | None) -> str:
    while frame is not None:
        if is_persons(frame.f_code.co_filename):
            return f"line {frame.f_lineno}: "
        frame = frame.f_back
    return ""
