"""The device time of a sample by other clocks: CUDA events, and the slope of the wall clock.

The slope is what a call adds to the time until the whole device is idle, flush included, less what the flush
alone adds: a kernel whose work goes on after its recorded end, on whatever stream, is slower by it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from workbench.referee.clock.lane import Act, EventSampler, Lane
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.suspicion import tolerance_us
from workbench.referee.clock.taking import Turn

SLOPE_US = 1000.0
"""Calls of about this time together make one wall-clock sample."""
MOST_CALLS = 24
LOOKS = 3
PACED = 0.85
"""A host that is busy issuing for more than this part of the time sets the pace."""
LAUNCH_US = 1.0
"""What one more launch in a row costs the device."""
MOST_SLOWER = 0.2
"""Part of its time that a call may take longer in a row of calls: a card at its power limit lowers its clock.
A product of matrices of 5415 us on tensor cores of an H100 took 5901 us in a row."""


def events_us(sampler: EventSampler, name: str, samples: int) -> float:
    """Median over ``samples`` cold samples."""
    return statistics.median(sampler.take([Turn(name, turn) for turn in range(samples)]))


def slope_us(lane: Lane, act: Act, time_us: float, samples: int) -> float:
    """Microseconds one call adds to the wall clock, caches cold: T(2N) - T(N) over N, less the flush.

    0 where the host, not the device, set the pace: that says nothing about the device.
    """
    calls = _calls(lane, time_us)

    def with_call(turn: int) -> None:
        lane.open_cold()
        act(turn)

    both = _slope(lane, with_call, calls, samples)
    alone = _slope(lane, lambda _: lane.open_cold(), calls, samples)
    return 1e6 * (both - alone) - LAUNCH_US if both and alone else 0.0


def slower_us(lane: Lane, act: Act, time_us: float) -> float:
    """Microseconds that a call takes longer in a row of calls, by the device's own clock: 0 to a fifth of it.

    A row of calls without a pause heats a card up. Work that goes on behind the clocks is not in this.
    """
    stamps = []
    lane.wait()
    for turn in range(2 * _calls(lane, time_us)):
        lane.open_cold()
        first = lane.stamp()
        act(turn)
        stamps.append((first, lane.stamp()))
    lane.wait()
    found = statistics.median(lane.between_us(first, last) for first, last in stamps)
    return min(max(found - time_us, 0.0), MOST_SLOWER * time_us)


def _calls(lane: Lane, time_us: float) -> int:
    return max(2, min(MOST_CALLS, int(SLOPE_US / (time_us + lane.flush_us + 1.0))))


def _slope(lane: Lane, step: Callable[[int], None], calls: int, samples: int) -> float:
    """Seconds a step adds, the median over samples; 0 where the host set the pace in half of them."""
    paced = 0

    def seconds(count: int) -> float:
        nonlocal paced
        lane.wait()
        started = lane.now()
        for turn in range(count):
            step(turn)
        issued = lane.now()
        lane.wait()
        ended = lane.now()
        paced += issued - started > PACED * (ended - started)
        return ended - started

    slopes = [(seconds(2 * calls) - seconds(calls)) / calls for _ in range(samples)]
    return 0.0 if paced >= samples else statistics.median(slopes)


def looked_again(look: Callable[[], float], time_us: float, options: ClockOptions) -> float:
    """The look that agrees best, of up to three: what interrupts one look is not there in the next.

    Work that goes on behind the clocks is there in all of them.
    """
    best = look()
    for _ in range(LOOKS - 1):
        if best > 0 and abs(best - time_us) <= tolerance_us(time_us, best, options):
            break
        best = nearer(best, look(), time_us)
    return best


def nearer(one: float, other: float, time_us: float) -> float:
    """The look that agrees better; one that says nothing, which is 0, is no look."""
    told = [seen for seen in (one, other) if seen > 0]
    return min(told, key=lambda seen: abs(seen - time_us), default=0.0)


def usable(host_us: float, time_us: float, flush_us: float) -> bool:
    """False where the host, not the device, sets the pace of a row of calls."""
    return 1.2 * host_us < time_us + flush_us


def believed(checks: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Cross-checks that came out as times at all."""
    return tuple((name, time_us) for name, time_us in checks if time_us > 0.0)
