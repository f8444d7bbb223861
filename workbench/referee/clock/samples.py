"""Raw samples as they are kept: blocks of two samples of every contestant, in mirrored order.

Owns the order contestants take turns in and the values a receipt stores. Statistics are elsewhere.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from workbench.model import Value

KERNEL = "kernel"
"""Name of the candidate among the contestants; all others are baselines."""


class Track(Value):
    """One contestant's device times, cold: a pair of samples a block, microseconds."""

    name: str
    blocks: tuple[tuple[float, float], ...]

    @property
    def medians(self) -> tuple[float, ...]:
        """One number a block."""
        return tuple(statistics.median(pair) for pair in self.blocks)

    @property
    def samples(self) -> tuple[float, ...]:
        """All samples in order."""
        return tuple(sample for pair in self.blocks for sample in pair)


class RawTimes(Value):
    """Everything the verdict of one case rests on; blocks of all tracks were taken together."""

    case: str
    tracks: tuple[Track, ...]
    """The kernel first."""

    def track(self, name: str) -> Track:
        """Raises ``KeyError`` when there is none."""
        for one in self.tracks:
            if one.name == name:
                return one
        raise KeyError(name)

    @property
    def rivals(self) -> tuple[Track, ...]:
        """All but the kernel."""
        return tuple(one for one in self.tracks if one.name != KERNEL)


def turns(names: Sequence[str], block: int) -> tuple[str, ...]:
    """Order of one block: there and back again, so that a drift hits all alike (ABBA for two).

    Every other block begins with the other end, so that nobody is always first after a pause.
    """
    there = tuple(names) if block % 2 == 0 else tuple(reversed(names))
    return (*there, *reversed(there))


def pairs(order: Sequence[str], times_us: Sequence[float]) -> dict[str, tuple[float, float]]:
    """Samples of one block by contestant, to a tenth of a nanosecond: receipts hold thousands of them."""
    found: dict[str, list[float]] = {}
    for name, time_us in zip(order, times_us, strict=True):
        found.setdefault(name, []).append(round(time_us, 4))
    return {name: (pair[0], pair[1]) for name, pair in found.items()}


def raw_times(case: str, names: Sequence[str], blocks: Sequence[dict[str, tuple[float, float]]]) -> RawTimes:
    """Blocks as ``pairs`` has them, by contestant."""
    tracks = tuple(Track(name=name, blocks=tuple(block[name] for block in blocks)) for name in names)
    return RawTimes(case=case, tracks=tracks)
