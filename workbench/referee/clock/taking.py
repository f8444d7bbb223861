"""Takes turns: warms up, samples block after block, stops when enough is known.

Owns the loop between a sampler (a GPU's or a simulated one) and the stopping rule. Pure of torch: what a
sampler does to take a sample is its own business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from workbench.model import Conditions
from workbench.referee.clock.conditions import Monitor, Snapshot, is_throttled, summary
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import RawTimes, pairs, raw_times, turns
from workbench.referee.clock.stopping import PATIENCE, Stopping

ClockName = Literal["cupti", "events", "wall"]
BATCH_S = 0.02
"""Blocks are taken in batches of about this many seconds, with one wait for the device each."""
MOST_BLOCKS = 32


class Turn(NamedTuple):
    """One sample to take."""

    name: str
    rotation: int
    """Which copy of the inputs; the same for every contestant in one half of a block."""


class Sampler(Protocol):
    """Takes samples of contestants it knows by name."""

    clock: ClockName

    def take(self, turns: Sequence[Turn]) -> list[float]:
        """Device time of each turn, caches cold, microseconds; waits for the device."""
        ...


@dataclass(frozen=True)
class Taken:
    """What a sampling run brought home."""

    raw: RawTimes
    conditions: Conditions
    seconds: float


def take_case(
    sampler: Sampler, case: str, names: Sequence[str], options: ClockOptions, watch: Watch
) -> Taken:
    """Sample every contestant of a case until the stopping rule is content; the kernel comes first."""
    block_s = _warm_up(sampler, names, options, watch.now)
    stopping = Stopping(options)
    blocks: list[dict[str, tuple[float, float]]] = []
    snapshots: list[Snapshot] = []
    dropped = 0
    started = watch.now()
    while True:
        size = max(1, min(MOST_BLOCKS, int(BATCH_S / max(block_s, 1e-6))))
        batch = _batch(sampler, names, len(blocks) + dropped, size)
        seen = watch.monitor.look()
        snapshots += [seen] if seen else []
        seconds = watch.now() - started
        if seen and is_throttled(seen) and seconds < PATIENCE * options.max_s:
            dropped += size
            continue
        blocks += batch
        raw = raw_times(case, names, blocks)
        if stopping.enough(raw, seconds):
            return Taken(raw, summary(snapshots, dropped, watch.monitor.others()), seconds)


@dataclass(frozen=True)
class Watch:
    """The machine's own clock, in seconds, and what is known of the card's state."""

    now: Callable[[], float]
    monitor: Monitor


def _warm_up(
    sampler: Sampler, names: Sequence[str], options: ClockOptions, now: Callable[[], float]
) -> float:
    """Run everybody often and long enough; returns the seconds of one block."""
    started = now()
    rounds = 0
    while rounds < options.warmups or now() - started < options.warmup_s:
        before = now()
        sampler.take([Turn(name, rounds) for name in names])
        rounds += 1
    return 2.0 * (now() - before)


def _batch(
    sampler: Sampler, names: Sequence[str], first: int, count: int
) -> list[dict[str, tuple[float, float]]]:
    orders = [turns(names, block) for block in range(first, first + count)]
    calls = [
        Turn(name, 2 * (first + block) + (position >= len(names)))
        for block, order in enumerate(orders)
        for position, name in enumerate(order)
    ]
    times = sampler.take(calls)
    width = 2 * len(names)
    return [pairs(order, times[i * width : (i + 1) * width]) for i, order in enumerate(orders)]
