"""Which kernel was fastest at which shape, and what a file that takes each where it was would gain.

Owns that comparison of times. Pure; never looks at a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.model import Evaluation

NOISE = 0.02
"""Kernels this close at a shape count as equally fast there: fewer kernels in one file are better."""
MOST_KERNELS = 4
"""Kernels that one file takes its parts from."""

Times = Mapping[str, float]
"""Microseconds by label of the declared case."""


@dataclass(frozen=True)
class Shares:
    """For every case the place, in the list that was compared, of the kernel that takes it."""

    by_case: tuple[tuple[str, int], ...]
    gain: float
    """Time of the best single kernel over the time with shares, geometric mean over the cases."""

    @property
    def kernels(self) -> tuple[int, ...]:
        """Places of the kernels that take a case, in the order of the list."""
        return tuple(sorted({place for _, place in self.by_case}))


def shares(kernels: Sequence[Times], noise: float = NOISE, most: int = MOST_KERNELS) -> Shares | None:
    """Give every case to its fastest kernel, with as few kernels as noise allows; None without times.

    Kernels that lack a case the first one has are left out. Greedy: the kernel that is best, within noise,
    at most cases that are still open goes first; of equals the one with the better mean over those.
    """
    cases = tuple(kernels[0]) if kernels else ()
    able = [place for place, times in enumerate(kernels) if all(times.get(case, 0) > 0 for case in cases)]
    if not cases or not able:
        return None
    least = {case: min(kernels[place][case] for place in able) for case in cases}
    means = {place: _mean(kernels[place][case] for case in cases) for place in able}
    chosen: list[int] = []
    open_cases = set(cases)
    while open_cases and len(chosen) < most:
        good = {place: _within(kernels[place], least, open_cases, noise) for place in able}
        left = {place: _mean(kernels[place][case] for case in open_cases) for place in able}
        first = min(able, key=lambda place: (-len(good[place]), left[place], means[place], place))
        chosen.append(first)
        open_cases -= good[first]
    by_case = {case: min(chosen, key=lambda place: kernels[place][case]) for case in cases}
    for case in cases:  # within noise, the kernel that was chosen first
        by_case[case] = next(
            p for p in chosen if kernels[p][case] <= (1 + noise) * kernels[by_case[case]][case]
        )
    return Shares(tuple(by_case.items()), gain_of(kernels, by_case))


def gain_of(kernels: Sequence[Times], by_case: Mapping[str, int]) -> float:
    """Time of the best single kernel, of those that have all cases, over the time with shares."""
    able = [times for times in kernels if all(times.get(case, 0) > 0 for case in by_case)]
    shared = _mean(kernels[place][case] for case, place in by_case.items())
    return min(_mean(times[case] for case in by_case) for times in able) / shared


def times_of(evaluation: Evaluation | None) -> Times:
    """Times of a correct kernel by case; empty otherwise."""
    if evaluation is None or not evaluation.passed:
        return {}
    return {time.case: time.time_us for time in evaluation.times}


def source_of(evaluation: Evaluation | None) -> str:
    """Where the times come from, ``measured`` or ``model``; empty without times."""
    return evaluation.times[0].source if evaluation is not None and evaluation.times else ""


def _within(times: Times, least: Times, cases: set[str], noise: float) -> set[str]:
    return {case for case in cases if times[case] <= (1 + noise) * least[case]}


def _mean(values: Iterable[float]) -> float:
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))
