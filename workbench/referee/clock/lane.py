"""The device as a sampler sees it, and the samplers over it: CUPTI activity, or CUDA events.

Between two marks in the stream lies one sample: a mark is a memory set of a value no kernel writes by
chance, so that CUPTI's records can be told apart without asking for the host's calls as well. Owns the order
flush, call, mark. Pure of torch: the last touch of the GPU is ``gpu.py`` and ``tracing.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from workbench.referee.clock.taking import ClockName, Turn

Act = Callable[[int], tuple[Any, ...]]
"""Issues one call on the given copy of the inputs, on the current stream, and returns its output tensors."""

Role = Literal["open", "close", "work"]
MARGIN = 1.5
"""Lead of the device over a host that needs this many times what it was seen to need."""
SLACK_US = 20.0


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

    def stamp(self) -> Any:
        """Record an event."""
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


@dataclass
class CuptiSampler:
    """Device time from the first kernel's or copy's start to the last one's end."""

    lane: Lane
    trace: Trace
    acts: Mapping[str, Act]
    host_us: Mapping[str, float]
    """Host time of one call of each contestant."""
    warm: bool = False
    clock: ClockName = "cupti"

    def take(self, turns: Sequence[Turn]) -> list[float]:
        """See ``Sampler``. Raises ``LostRecords``."""
        self.lane.reset_l2()
        for turn in turns:
            act = self.acts[turn.name]
            self.lane.busy(_lead_us(self.lane, self.host_us[turn.name], self.warm))
            _open(self.lane, act, turn.rotation, self.warm)
            act(turn.rotation)
            self.lane.close()
        self.lane.wait()
        spans = spans_of(self.trace.collect())
        if len(spans) != len(turns):
            raise LostRecords(f"{len(spans)} samples in the trace of {len(turns)}")
        return spans


@dataclass
class EventSampler:
    """Device time between two events, less what two events around an empty kernel show."""

    lane: Lane
    acts: Mapping[str, Act]
    host_us: Mapping[str, float]
    overhead_us: float = 0.0
    warm: bool = False
    clock: ClockName = "events"

    def take(self, turns: Sequence[Turn]) -> list[float]:
        """See ``Sampler``."""
        self.lane.reset_l2()
        stamps = []
        for turn in turns:
            act = self.acts[turn.name]
            self.lane.busy(_lead_us(self.lane, self.host_us[turn.name], self.warm))
            _open(self.lane, act, turn.rotation, self.warm)
            first = self.lane.stamp()
            act(turn.rotation)
            stamps.append((first, self.lane.stamp()))
        self.lane.wait()
        return [max(self.lane.between_us(*pair) - self.overhead_us, 0.01) for pair in stamps]


def _open(lane: Lane, act: Act, rotation: int, warm: bool) -> None:
    if warm:
        act(rotation)
        lane.open_warm()
    else:
        lane.open_cold()


def _lead_us(lane: Lane, host_us: float, warm: bool) -> float:
    """How long the device must be kept waiting for the host to be ahead of it during a sample."""
    covered = 0.0 if warm else lane.flush_us
    calls = 2.0 if warm else 1.0
    return max(0.0, calls * MARGIN * host_us + SLACK_US - covered)


def spans_of(records: Iterable[Record]) -> list[float]:
    """Microseconds of every marked sample: last end less first start of the work between two marks.

    Raises ``LostRecords`` for a record without times, a mark without its partner or a sample without work.
    """
    spans: list[float] = []
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
            spans.append((max(r.end_ns for r in inside) - inside[0].start_ns) * 1e-3)
            inside = None
    return spans
