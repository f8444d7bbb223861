"""From raw samples to ratios, intervals and FASTER, SAME, SLOWER or AMBIGUOUS. Pure.

The only place that turns samples into claims, so that a receipt's claims can be derived again from it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from workbench.model import Comparison, Rival
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.samples import KERNEL, RawTimes, Track
from workbench.referee.clock.statistics import Interval, chained_ratio, paired_ratio


def comparison(ratio: Interval, time_us: float, options: ClockOptions) -> Comparison:
    """The word for an interval of rival over kernel; ``time_us`` is the kernel's.

    FASTER and SLOWER need the whole interval beyond ``margin``; SAME needs it whole within ``same``; what
    crosses a border is AMBIGUOUS. Simulated with the noise of a GPU (simulated.py), a kernel against itself
    is SAME in over 99 of 100 runs and 2% at 100 us are found in over 99; so they were on an H100.
    """
    margin, same = options.margin_at(time_us), options.same_at(time_us)
    if ratio.low > 1.0 + margin:
        return "FASTER"
    if ratio.high < 1.0 / (1.0 + margin):
        return "SLOWER"
    if ratio.low >= 1.0 / (1.0 + same) and ratio.high <= 1.0 + same:
        return "SAME"
    return "AMBIGUOUS"


def rivals_of(raw: RawTimes, options: ClockOptions) -> tuple[Rival, ...]:
    """Every baseline of a case, in the order measured."""
    kernel = raw.track(KERNEL).medians
    found = []
    for track in raw.rivals:
        ratio = paired_ratio(kernel, track.medians, options.resamples, options.seed)
        found.append(_rival(track, ratio, statistics.median(kernel), options))
    return tuple(found)


def chained_rivals(raw: RawTimes, baselines: RawTimes, options: ClockOptions) -> tuple[Rival, ...]:
    """Baselines measured once, in turns with each other, held against a kernel measured later.

    The pivot is the first baseline that both runs hold. Empty when there is none.
    """
    own = {track.name for track in raw.rivals}
    pivot = next((track.name for track in baselines.tracks if track.name in own), None)
    if pivot is None:
        return ()
    kernel = raw.track(KERNEL).medians, raw.track(pivot).medians
    found = []
    for track in _others(baselines.tracks, own):
        second = baselines.track(pivot).medians, track.medians
        ratio = chained_ratio(kernel, second, options.resamples, options.seed)
        found.append(_rival(track, ratio, statistics.median(kernel[0]), options))
    return tuple(found)


def _others(tracks: Iterable[Track], own: set[str]) -> list[Track]:
    return [track for track in tracks if track.name not in own and track.name != KERNEL]


def _rival(track: Track, ratio: Interval, kernel_us: float, options: ClockOptions) -> Rival:
    return Rival(
        name=track.name,
        time_us=statistics.median(track.medians),
        ratio=ratio.middle,
        low=ratio.low,
        high=ratio.high,
        verdict=comparison(ratio, kernel_us, options),
        blocks=len(track.blocks),
    )
