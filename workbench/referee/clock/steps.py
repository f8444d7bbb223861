"""What each step of a plan takes: CUPTI's records of a call, cut at the marks behind steps. Pure of torch.

Host and device need not be in time here: what is added up is what each kernel, copy or memory set took, and
what lies between them is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from typing import Any

from workbench.referee.clock.lane import Lane, LostRecords, Record, Trace

CALLS = 5
"""The median of so few is good to a few percent: enough to see where a time goes, and not what is claimed."""

Marked = Callable[[Callable[[], None]], Callable[[], Any]]
"""Given a mark, what issues one call and marks the end of each step."""


def step_times_us(lane: Lane, trace: Trace, marked: Marked, count: int) -> tuple[float, ...]:
    """Device time of each of ``count`` steps, in microseconds.

    The trace must be running. Raises ``LostRecords``.
    """
    call = marked(lane.between_steps)
    lane.wait()
    trace.collect()
    rounds = []
    for _ in range(CALLS):
        lane.open_cold()
        call()
        lane.close()
        lane.wait()
        rounds.append(cut(trace.collect()))
    if any(len(one) != count for one in rounds):
        raise LostRecords(f"{sorted({len(one) for one in rounds})} steps in the trace of {count}")
    return tuple(statistics.median(times) for times in zip(*rounds, strict=True))


def cut(records: Iterable[Record]) -> list[float]:
    """Microseconds of work in each step of one call: of what lies before its mark and behind the last one.

    Kernels of one library call may run side by side: a moment counts once.
    """
    times: list[float] = []
    work_ns, until_ns, is_open, is_whole = 0, 0, False, False
    for record in sorted(records):
        if record.start_ns <= 0 or record.end_ns < record.start_ns:
            raise LostRecords("a record has no times")
        match record.role:
            case "open":
                work_ns, is_open = 0, True
            case "work" if is_open:
                work_ns += max(0, record.end_ns - max(record.start_ns, until_ns))
                until_ns = max(until_ns, record.end_ns)
            case "step" if is_open:
                times.append(work_ns * 1e-3)
                work_ns = 0
            case "close":
                is_open, is_whole = False, is_open
    if not times or not is_whole:
        raise LostRecords("a call has no steps" if is_whole else "a call has no beginning or no end")
    if work_ns:
        raise LostRecords("a call has work behind its last step")
    return times
