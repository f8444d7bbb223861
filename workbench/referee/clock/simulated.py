"""A sampler without a GPU: draws device times with the noise of one. For tests and for choosing thresholds.

What it draws, with the figures seen on or assumed for an H100 and a memory-bound kernel of 100 us whose
inputs are flushed out of L2: the clock wanders slowly (both contestants feel it), every sample has noise of
its own in proportion and in absolute time, one in a hundred is hit by something else, the first after a wait
for the device is slower, and in each run a contestant's buffers lie a little better or worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from workbench.referee.clock.taking import ClockName, Turn

TICK_US = 0.032
"""Resolution of the GPU's global timer."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations; relative unless a unit is named."""

    drift: float = 0.007
    """Of the common wandering, whose memory is ``drift_samples`` long."""
    drift_samples: float = 200.0
    relative: float = 0.006
    absolute_us: float = 0.15
    outliers: float = 0.01
    """Share of samples that are hit."""
    outlier_size: float = 0.05
    """Mean slowdown of those."""
    first: float = 0.003
    """Slowdown of the first sample after a wait."""
    placement: float = 0.001
    """How much better or worse a contestant's buffers lie in one run."""


@dataclass
class SimulatedSampler:
    """Knows every contestant's true time. Counts its own seconds in ``clock_s``."""

    times_us: Mapping[str, float]
    noise: Noise = Noise()
    seed: int = 0
    overhead_us: float = 90.0
    """Flushing the cache before each sample."""
    clock: ClockName = "events"
    clock_s: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._drift = self.noise.drift * float(self._random.standard_normal())
        spread = self.noise.placement * self._random.standard_normal(len(self.times_us))
        self._placed = {name: float(off) for name, off in zip(self.times_us, spread, strict=True)}

    def now(self) -> float:
        """Seconds the simulated work has taken so far."""
        return self.clock_s

    def take(self, turns: Sequence[Turn]) -> list[float]:
        """One batch, after a wait."""
        times = [self._one(turn.name, position == 0) for position, turn in enumerate(turns)]
        self.clock_s += 1e-6 * (sum(times) + self.overhead_us * len(times))
        return times

    def _one(self, name: str, first: bool) -> float:
        noise, random = self.noise, self._random
        kept = float(np.exp(-1.0 / noise.drift_samples))
        self._drift = kept * self._drift + noise.drift * float(
            np.sqrt(1.0 - kept**2) * random.standard_normal()
        )
        slower = self._drift + noise.relative * random.standard_normal() + self._placed[name]
        slower += noise.first * first
        if random.random() < noise.outliers:
            slower += random.exponential(noise.outlier_size)
        time_us = self.times_us[name] * (1.0 + slower) + noise.absolute_us * random.standard_normal()
        return max(TICK_US, round(time_us / TICK_US) * TICK_US)
