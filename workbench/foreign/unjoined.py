"""Whether the caller's stream waits for all that a call began: nobody may read a result before it is there.

Runs inside the solution's process. Owns one measurement, from the card's own records, and no verdict. Nothing
here depends on who is faster. The stream is held up before the call, so that call and mark are both
queued before any of the call's work can begin that waits for its inputs. The mark, a memory set on the
caller's stream, starts when everything has ended that this stream was made to wait for, and nothing else
can hold it up. Work that ends after the mark has started was therefore not waited for; of work that was, CUDA
promises that it has ended. Not seen: work on another stream that is over before the caller's own work is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from workbench.foreign.device_records import Ran, trace
from workbench.referee.clock.gpu import CLOSE, fill

HOLD_UP_US, LONGEST_US = 1000.0, 50_000.0
"""How long the stream is held up at first, and at most."""
LONGER = 3.0
AGREEING, ATTEMPTS = 2, 6
"""So many calls must say the same, of so many at most: one record may be off or lost."""
NOISE_US = 2.0
"""Two records of one clock may be off by this much."""
CYCLES_PER_US = 2000.0
"""Of a fast card; a slower one is held up for longer."""
NOW: Callable[[], float] = time.perf_counter


class Late(NamedTuple):
    """Work that the caller's stream did not wait for."""

    name: str
    us: float
    """How long after the caller's stream was free it ended."""


class Caller(Protocol):
    """The stream that a call is made on."""

    def hold_up(self, us: float) -> Any:
        """Keep it busy; returns what ``held`` is asked about."""
        ...

    def held(self, since: Any) -> bool:
        """True while it is still kept busy."""
        ...

    def mark(self) -> None:
        """Queue the mark."""
        ...

    def join(self) -> None:
        """Wait for every stream of the device."""
        ...


class CurrentStream:
    """PyTorch's current stream; every function is held before a solution could replace it."""

    _sleep: Callable[[int], None] = staticmethod(torch.cuda._sleep)
    _join: Callable[[], None] = staticmethod(torch.cuda.synchronize)
    _event = torch.cuda.Event

    def __init__(self) -> None:
        self._place = torch.empty(1024, dtype=torch.uint8, device="cuda")

    def hold_up(self, us: float) -> Any:
        """See ``Caller``."""
        self._sleep(int(us * CYCLES_PER_US))
        event = self._event()  # type: ignore[no-untyped-call]
        event.record()
        return event

    def held(self, since: Any) -> bool:
        """See ``Caller``."""
        return not since.query()

    def mark(self) -> None:
        """See ``Caller``."""
        fill(self._place, CLOSE)

    def join(self) -> None:
        """See ``Caller``."""
        self._join()


def late_work(call: Callable[[], Any], caller: Caller) -> Late | None:
    """What ``call`` leaves behind that ``caller`` does not wait for; None without it, or without CUPTI.

    A call that itself waits for the device is never queued as a whole, however long the stream is held up:
    the records of each attempt count all the same. Raises what ``call`` raises.
    """
    tracing, _ = trace()
    if tracing is None:
        return None
    hold_us, seen, quiet = HOLD_UP_US, [], 0
    caller.join()
    with tracing.running():
        for _ in range(ATTEMPTS):
            since, started = caller.hold_up(hold_us), NOW()
            call()
            caller.mark()
            queued = caller.held(since)
            spent_us = 1e6 * (NOW() - started)
            caller.join()
            ran = tracing.collect()
            late = overtaken(ran)
            seen += [late] if late is not None else []
            quiet += late is None and queued and bool(_marked(ran))
            if max(len(seen), quiet) == AGREEING:
                break
            if not queued:
                hold_us = min(LONGER * max(hold_us, spent_us), LONGEST_US)
    return min(seen, key=lambda late: late.us) if len(seen) == AGREEING else None


def overtaken(ran: Sequence[Ran]) -> Late | None:
    """The work that ended last, where it ended after the mark had started."""
    marks, work = _marked(ran), [one for one in ran if not one.mark]
    if not marks or not work:
        return None
    last = max(work, key=lambda one: one.end_ns)
    late_us = (last.end_ns - min(one.begin_ns for one in marks)) / 1e3
    return Late(last.name, late_us) if late_us > NOISE_US else None


def _marked(ran: Sequence[Ran]) -> list[Ran]:
    """The mark; there may be none, for CUPTI has been seen to lose a record."""
    return [one for one in ran if one.mark and one.begin_ns]
