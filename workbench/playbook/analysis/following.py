"""What an estimate says, and how those of steps that follow one another add up.

Owns the sum: a launch each, or one for kernels that share it. estimate.py models the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.model import Target
from workbench.playbook.analysis.stages import Sharing, stages_of
from workbench.playbook.ir.program import Kernel, ProgramStep, Scatter
from workbench.playbook.schedules.schedule import RESIDENT, Schedule


@dataclass(frozen=True)
class Estimate:
    """Microseconds at one case, and what they consist of."""

    us: float
    dram_bytes: float
    launches: int
    library_us: float
    flight_share: float
    """Part of the bandwidth that the bytes in flight can draw, worst kernel."""


NOTHING = Estimate(0.0, 0.0, 0, 0.0, 1.0)


def one_then(one: Estimate, other: Estimate) -> Estimate:
    """Two steps, one after the other."""
    return Estimate(
        one.us + other.us,
        one.dram_bytes + other.dram_bytes,
        one.launches + other.launches,
        one.library_us + other.library_us,
        min(one.flight_share, other.flight_share),
    )


def in_order(steps: Sequence[tuple[ProgramStep, Estimate]], schedule: Schedule, target: Target) -> Estimate:
    """All steps of a program; each has a launch of its own in its estimate."""
    total = NOTHING
    run: list[tuple[Sharing, Estimate]] = []
    for step, found in steps:
        if isinstance(step, Kernel | Scatter) and schedule.launches != "apart":
            run.append((step, found))
            continue
        total = one_then(one_then(total, _shared(run, schedule, target)), found)
        run = []
    return one_then(total, _shared(run, schedule, target))


_UNTIL_FIRST_US = 8.0
"""Until the sums of the first plane are known, and those of the last plane have been used (a guess)."""


def _in_turns(run: Sequence[Estimate], target: Target) -> Estimate:
    """Kernels that go plane by plane in one launch: at any time each of them has jobs."""
    total = NOTHING
    for found in run:
        total = one_then(total, replace(found, us=found.us - target.launch_us, launches=0))
    return replace(total, us=total.us + target.launch_us + _UNTIL_FIRST_US, launches=1) if run else NOTHING


def _shared(run: Sequence[tuple[Sharing, Estimate]], schedule: Schedule, target: Target) -> Estimate:
    """Neighbouring kernels: those of a stage at the same time; stages with a launch or a barrier between."""
    if schedule.launches == "turns":
        return _in_turns([found for _, found in run], target)
    total = NOTHING
    # On an H200 what waits for atomics behind a barrier begins no sooner than a launch does: two caches take
    # 26.6 us in three launches and 28.1 in one, degrees of a graph 50.2 and 52.8.
    scattered = any(isinstance(step, Scatter) for step, _ in run)
    for number, stage in enumerate(stages_of([kernel for kernel, _ in run])):
        found = NOTHING
        for place in stage:
            found = one_then(found, run[place][1])
        longest = max(run[place][1].us - target.launch_us for place in stage)
        busy = 1e6 * found.dram_bytes / target.dram_bytes_per_s
        met = schedule.launches == "together" and number > 0
        waits = met and not scattered
        begun = target.meeting_of(max(1, RESIDENT // schedule.threads)) if waits else target.launch_us
        us = max(longest, busy) + begun
        total = one_then(total, replace(found, us=us, launches=0 if met else 1))
    return total
