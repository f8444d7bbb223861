"""When enough samples have been taken. Pure; the seconds are given.

After nvbench's criterion: at least so many samples and seconds, then until the noise is small or no longer
changes, and never beyond a limit. Here the ratios must be narrow, or decided, as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import KERNEL, RawTimes
from workbench.referee.clock.statistics import Interval, quick_ratio, relative_spread
from workbench.referee.clock.verdicts import comparison

STABLE_LOOKS = 3
"""Looks in a row whose noise must agree."""
STABLE = 0.05
"""Relative spread of those looks that counts as no change (nvbench's figure)."""

PATIENCE = 4.0
"""Beyond ``max_s`` sampling goes on until the least number of blocks is there, up to so many times it."""


@dataclass
class Stopping:
    """Asked after every batch of blocks; remembers the noise it saw."""

    options: ClockOptions
    noise: list[float] = field(default_factory=list)

    def enough(self, raw: RawTimes, seconds: float) -> bool:
        """True when sampling may end after ``seconds``."""
        kernel = raw.track(KERNEL)
        if seconds >= self.options.max_s:
            return len(kernel.blocks) >= self.options.blocks or seconds >= PATIENCE * self.options.max_s
        self.noise.append(relative_spread(kernel.samples))
        if len(kernel.samples) < self.options.samples or len(kernel.blocks) < self.options.blocks:
            return False
        if seconds < self.options.min_s or not self._quiet():
            return False
        ratios = [quick_ratio(kernel.medians, track.medians) for track in raw.rivals]
        return all(self._settled(ratio, kernel.samples[0]) for ratio in ratios)

    def _quiet(self) -> bool:
        return self.noise[-1] < self.options.relative or stable(self.noise)

    def _settled(self, ratio: Interval, time_us: float) -> bool:
        if ratio.half_width <= self.options.half_width_at(time_us):
            return True
        return comparison(ratio, time_us, self.options) in ("FASTER", "SLOWER")


def stable(noise: Sequence[float]) -> bool:
    """True when the last looks saw the same noise."""
    last = noise[-STABLE_LOOKS:]
    if len(last) < STABLE_LOOKS:
        return False
    mean = sum(last) / len(last)
    return mean == 0.0 or max(abs(one - mean) for one in last) <= STABLE * mean
