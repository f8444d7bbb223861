"""The device as a sampler sees it, and the samplers over it: CUPTI activity, or CUDA events.

Between two marks in the stream lies one sample: a mark is a memory set of a value no kernel writes by
chance, so that CUPTI's records can be told apart without asking for the host's calls as well. Owns the order
flush, call, mark. Pure of torch: the last touch of the GPU is ``gpu.py`` and ``tracing.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from workbench.referee.clock.taking import ClockName, Turn

Act = Callable[[int], tuple[Any, ...]]
"""Issues one call on the given copy of the inputs, on the current stream, and returns its output tensors."""

Role = Literal["open", "close", "step", "work"]
MARGIN = 1.5
"""The host is given this many times the time it was seen to need."""
SLACK_US = 30.0
LONGER = 3.0
"""A sample that is taken again gets this many times the lead."""
ATTEMPTS = 3
STARVING = 0.5
"""A device that has begun waits for a host whose call takes longer than this part of the sample."""
LEAST_US = 0.01


class Record(NamedTuple):
    """One activity of the device."""

    start_ns: int
    end_ns: int
    role: Role


class LostRecords(Exception):
    """The trace does not hold what was issued; its times are not used."""


class Lane(Protocol):
    """What samplers need of the device; everything goes to the current stream."""

    flush_us: float
    """About how long ``open_cold`` keeps the device busy."""

    def open_cold(self) -> None:
        """Mark that a sample begins, by a write that leaves nothing of the inputs in L2."""
        ...

    def open_warm(self) -> None:
        """Mark that a sample begins, caches as they are."""
        ...

    def close(self) -> None:
        """Mark that a sample ended."""
        ...

    def between_steps(self) -> None:
        """Mark that a step of a plan ended."""
        ...

    def stamp(self) -> Any:
        """Record an event."""
        ...

    def passed(self, stamp: Any) -> bool:
        """True when the device is beyond a recorded event."""
        ...

    def now(self) -> float:
        """The host's clock, seconds."""
        ...

    def between_us(self, first: Any, second: Any) -> float:
        """Microseconds between two recorded events; the device must have passed both."""
        ...

    def busy(self, time_us: float) -> None:
        """Keep the device waiting for that long, so that the host gets ahead."""
        ...

    def reset_l2(self) -> None:
        """Make lines that a kernel pinned in L2 ordinary again."""
        ...

    def wait(self) -> None:
        """Wait until the device has done everything, on every stream."""
        ...


class Trace(Protocol):
    """CUPTI's activity records."""

    def collect(self) -> list[Record]:
        """Records since the last call; the device must be idle."""
        ...


class Span(NamedTuple):
    """One sample."""

    time_us: float
    activities: int
    """Kernels, copies and memory sets in it."""


@dataclass
class _Issuing:
    """Puts samples into the stream, the device well behind the host; common to both samplers."""

    lane: Lane
    acts: Mapping[str, Act]
    host_us: Mapping[str, float]
    """Host time of one call of each contestant."""
    warm: bool = False

    def take(self, turns: Sequence[Turn]) -> list[float]:
        """See ``Sampler``.

        A sample in which the device had to wait for the host is taken again, with a longer lead.
        """
        times = [0.0] * len(turns)
        waiting = list(range(len(turns)))
        for attempt in range(ATTEMPTS):
            found, starved = self._pass([turns[i] for i in waiting], MARGIN * LONGER**attempt)
            for i, time_us in zip(waiting, found, strict=True):
                times[i] = time_us
            waiting = [i for i, late in zip(waiting, starved, strict=True) if late]
            if not waiting:
                break
        return times

    def _pass(self, turns: Sequence[Turn], margin: float) -> tuple[list[float], list[bool]]:
        issued = [self._issue(turn, margin) for turn in turns]
        self.lane.wait()
        times = self._read(issued)
        starved = [
            one.behind and one.host_us > STARVING * time_us
            for one, time_us in zip(issued, times, strict=True)
        ]
        return times, starved

    def _issue(self, turn: Turn, margin: float) -> _Issued:
        act, lane = self.acts[turn.name], self.lane
        # Lines that a contestant asked to be evicted last survive the flush and slow down whoever comes next.
        # Making them ordinary again works at once, not in the stream: whoever left them must be done.
        lane.wait()
        lane.reset_l2()
        lane.busy(_lead_us(lane, margin * self.host_us[turn.name], self.warm))
        if self.warm:
            act(turn.rotation)
            lane.open_warm()
        else:
            lane.open_cold()
        first = lane.stamp()
        started = lane.now()
        act(turn.rotation)
        host_us = 1e6 * (lane.now() - started)
        behind = lane.passed(first)
        last = lane.stamp()
        lane.close()
        return _Issued(turn.name, first, last, host_us, behind)

    def _read(self, issued: Sequence[_Issued]) -> list[float]:
        raise NotImplementedError


class _Issued(NamedTuple):
    """A sample in the stream."""

    name: str
    first: Any
    last: Any
    host_us: float
    """What the call took this time."""
    behind: bool
    """True when the device had begun before the host was done."""


@dataclass
class CuptiSampler(_Issuing):
    """Device time from the first kernel's or copy's start to the last one's end.

    For contestants of one activity each: tracing stretches the gaps between several.
    """

    trace: Trace = field(kw_only=True)
    clock: ClockName = "cupti"
    activities: dict[str, int] = field(default_factory=dict)
    """Most activities seen in a sample of each contestant."""

    def _read(self, issued: Sequence[_Issued]) -> list[float]:
        """Raises ``LostRecords``."""
        spans = spans_of(self.trace.collect())
        if len(spans) != len(issued):
            raise LostRecords(f"{len(spans)} samples in the trace of {len(issued)}")
        for one, span in zip(issued, spans, strict=True):
            self.activities[one.name] = max(self.activities.get(one.name, 0), span.activities)
        return [span.time_us for span in spans]


@dataclass
class EventSampler(_Issuing):
    """Device time between two events, less what a pair of them adds to a short kernel."""

    overhead_us: float = 0.0
    clock: ClockName = "events"

    def _read(self, issued: Sequence[_Issued]) -> list[float]:
        spans = (self.lane.between_us(one.first, one.last) for one in issued)
        return [max(span - self.overhead_us, LEAST_US) for span in spans]


def _lead_us(lane: Lane, host_us: float, warm: bool) -> float:
    """How long the device must be kept waiting for the host to be ahead of it during a sample."""
    covered = 0.0 if warm else lane.flush_us
    calls = 2.0 if warm else 1.0
    return max(0.0, calls * host_us + SLACK_US - covered)


def spans_of(records: Iterable[Record]) -> list[Span]:
    """Every marked sample: last end less first start of the work between two marks.

    Raises ``LostRecords`` for a record without times, a mark without its partner or a sample without work.
    """
    spans: list[Span] = []
    inside: list[Record] | None = None
    for record in sorted(records):
        if record.start_ns <= 0 or record.end_ns < record.start_ns:
            raise LostRecords("a record has no times")
        if record.role == "open":
            if inside is not None:
                raise LostRecords("a sample has no end")
            inside = []
        elif record.role == "work":
            if inside is not None:
                inside.append(record)
        elif not inside:
            raise LostRecords("a sample has no work" if inside is not None else "a sample has no beginning")
        else:
            last_ns = max(one.end_ns for one in inside)
            spans.append(Span((last_ns - inside[0].start_ns) * 1e-3, len(inside)))
            inside = None
    return spans
