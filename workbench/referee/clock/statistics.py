"""Medians, spread and the paired bootstrap. Pure: numbers in, numbers out; seeded.

The spread is 1.4826 times the median absolute deviation over the median: the standard deviation for normal
noise, and unmoved by the rare sample that a timer interrupt or a clock change hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COVERAGE = 0.95
MAD_TO_STDEV = 1.4826
NORMAL_95 = 1.96
TRIMMED_OVER_MEAN = 1.1
"""Standard error of the mean of the middle half over that of the mean, for normal noise."""
KEPT = 0.5
"""Middle part of the blocks that a ratio is the mean of: nearly the precision of a mean, nearly the
robustness of a median (Rosenberger and Gasko 1983, trimmed means)."""

STRETCH = 5
"""Samples in a row that nothing disturbed."""


@dataclass(frozen=True)
class Interval:
    """A figure and its 95% interval."""

    middle: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval over the figure."""
        return (self.high - self.low) / (2.0 * self.middle)


def relative_spread(samples: Sequence[float]) -> float:
    """Robust relative standard deviation; 0 for fewer than two samples."""
    if len(samples) < 2:
        return 0.0
    values = np.asarray(samples, dtype=np.float64)
    middle = float(np.median(values))
    return MAD_TO_STDEV * float(np.median(np.abs(values - middle))) / middle


def paired_ratio(kernel: Sequence[float], rival: Sequence[float], resamples: int, seed: int) -> Interval:
    """Rival over kernel, block by block; both in microseconds, one number a block.

    Raises ``ValueError`` for blocks that do not pair up, or none.
    """
    if len(kernel) != len(rival) or not kernel:
        raise ValueError(f"{len(kernel)} blocks of the kernel against {len(rival)} of the rival")
    logs = np.log(np.asarray(rival, dtype=np.float64)) - np.log(np.asarray(kernel, dtype=np.float64))
    return _exponential(middle(logs), _bootstrap(logs, resamples, seed))


def quick_ratio(kernel: Sequence[float], rival: Sequence[float]) -> Interval:
    """Nearly ``paired_ratio`` without resampling, to decide whether to go on; the spread is robust."""
    logs = np.log(np.asarray(rival, dtype=np.float64)) - np.log(np.asarray(kernel, dtype=np.float64))
    centre = middle(logs)
    spread = MAD_TO_STDEV * float(np.median(np.abs(logs - np.median(logs))))
    reach = NORMAL_95 * TRIMMED_OVER_MEAN * spread / float(np.sqrt(len(logs)))
    return Interval(*(float(np.exp(end)) for end in (centre, centre - reach, centre + reach)))


def chained_ratio(
    kernel_to_pivot: tuple[Sequence[float], Sequence[float]],
    pivot_to_rival: tuple[Sequence[float], Sequence[float]],
    resamples: int,
    seed: int,
) -> Interval:
    """Rival over kernel through a baseline that both were paired with, each in a run of its own.

    The two ratios are independent, so their resampled logarithms add up.
    """
    first = np.log(np.asarray(kernel_to_pivot[1])) - np.log(np.asarray(kernel_to_pivot[0]))
    second = np.log(np.asarray(pivot_to_rival[1])) - np.log(np.asarray(pivot_to_rival[0]))
    draws = _bootstrap(first, resamples, seed) + _bootstrap(second, resamples, seed + 1)
    return _exponential(middle(first) + middle(second), draws)


def quietest(values: Sequence[float]) -> float:
    """The least median of ``STRETCH`` samples in a row: what a cost is while nobody else has the device.

    For what is taken off a time: a median over all would grow where another process disturbs the
    calibration, and every kernel timed afterwards would look faster than it is.
    """
    return min(
        float(np.median(values[first : first + STRETCH]))
        for first in range(0, max(1, len(values) - STRETCH + 1), STRETCH)
    )


def median_interval(samples: Sequence[float], resamples: int, seed: int) -> Interval:
    """The median of samples in microseconds, bootstrapped."""
    values = np.asarray(samples, dtype=np.float64)
    generator = np.random.default_rng(seed)
    picked = generator.integers(0, len(values), size=(resamples, len(values)))
    low, high = _ends(np.median(values[picked], axis=1))
    return Interval(float(np.median(values)), low, high)


def middle(values: Floats) -> float:
    """Mean of the middle half."""
    return float(_middles(values[np.newaxis, :])[0])


def _middles(rows: Floats) -> Floats:
    count = rows.shape[1]
    cut = int(count * (1.0 - KEPT) / 2.0)
    ordered = np.partition(rows, (cut, count - cut - 1), axis=1) if cut else rows
    return np.asarray(ordered[:, cut : count - cut].mean(axis=1), dtype=np.float64)


def _bootstrap(values: Floats, resamples: int, seed: int) -> Floats:
    generator = np.random.default_rng(seed)
    picked = generator.integers(0, len(values), size=(resamples, len(values)))
    return _middles(values[picked])


def _ends(draws: Floats) -> tuple[float, float]:
    tail = 100.0 * (1.0 - COVERAGE) / 2.0
    low, high = np.percentile(draws, (tail, 100.0 - tail))
    return float(low), float(high)


def _exponential(log_middle: float, draws: Floats) -> Interval:
    low, high = _ends(draws)
    return Interval(float(np.exp(log_middle)), float(np.exp(low)), float(np.exp(high)))
