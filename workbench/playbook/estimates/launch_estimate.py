"""What a launch of equal teams is estimated to take under a schedule."""

from __future__ import annotations

from workbench.playbook.analysis import lifetime
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Work

_STREAMED, _STAYS = 0.995, 1.002
"""Time of a launch whose loads and stores carry hints, and of one whose blocks stay for all rows."""


def launched(asked: Asked, work: Work, multiprocessors: int = 0, stays: bool = False) -> Estimate:
    """A launch of its own, on all multiprocessors unless a number is given.

    Blocks that ``stays`` (or the schedule) keeps for all rows are not started one after the other.
    """
    schedule, target = asked.schedule, asked.target
    if multiprocessors:
        target = target.model_copy(update={"sm_count": multiprocessors})
    if not (stays or schedule.persistent):
        work = work.in_blocks_of(max(schedule.threads, work.threads))
    time = lifetime.launch_time(target, work)
    us = time.us * (_STREAMED if schedule.stream else 1.0) * (_STAYS if schedule.persistent else 1.0)
    return Estimate(us + target.launch_us, time.dram_bytes, 1, 0.0, time.flight_share)
