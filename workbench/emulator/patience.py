"""When a launch is given up: it has used too much processor time, or its blocks get nowhere.

Pure: seconds and counts in, a decision out. Processor time, so that a busy machine raises no alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

FIRST_CPU_S, LEAST_CPU_S = 15.0, 6.0
"""Processor time of a first launch at most, and the least that any later one gets."""
READINGS, ACCESS_S = 16, 1e-7
"""No thread of a first launch is expected to read every element more often, nor an access to take longer."""
TIMES_SLOWER = 100.0
"""How much longer than the slowest one before, thread for thread, a launch may take; a block that does not
end, than those of its launch that did."""
STILL_CPU_S = 4.0
"""So long no block may end before a launch can count as stuck."""
LONGER, STEADY = 4.0, 2.0
"""How many times its limit a launch may take whose blocks end one after another, all of them by then, or the
time of the longest before, however few threads there are; and how much longer than the others the next block
may let wait for it."""
TICK_S = 0.01


@dataclass
class Patience:
    """How much processor time a launch may take, learnt from the launches before it.

    A launch that never ends is thus noticed in seconds, not at the end of all the time a judgement has.
    """

    slowest_s: float = 0.0
    """Most that one thread of a launch has cost so far; 0 before the first one."""
    longest_s: float = 0.0
    """Most that a launch has taken. On a card with one multiprocessor a block does the work of all others."""

    def limit_s(self, threads: int, elements: int) -> float:
        """Seconds for a launch of so many threads on tensors with so many elements together."""
        if self.slowest_s == 0.0:
            return min(FIRST_CPU_S, STILL_CPU_S + threads * elements * READINGS * ACCESS_S)
        return max(LEAST_CPU_S, TIMES_SLOWER * self.slowest_s * threads, LONGER * self.longest_s)

    def took(self, threads: int, cpu_s: float) -> None:
        """Learn from a launch that ended; one that is short for the system's clock tells nothing more."""
        self.slowest_s = max(self.slowest_s, cpu_s / threads if cpu_s >= 5 * TICK_S else 1e-9)
        self.longest_s = max(self.longest_s, cpu_s)


@dataclass
class Watch:
    """One launch, looked at from outside while it runs."""

    limit_s: float
    blocks: int
    at_once: int
    """Blocks that run at the same time; all of them where none can end before the others."""
    ended: int = 0
    since_s: float = 0.0
    """When the last block ended."""

    def hopeless(self, spent_s: float, ended: int) -> bool:
        """True when the time is up, or will be: ``ended`` blocks after ``spent_s`` of processor time."""
        if ended != self.ended:
            self.ended, self.since_s = ended, spent_s
        still_s = spent_s - self.since_s
        if spent_s > self.limit_s and not self._ends_in_time(spent_s, still_s):
            return True
        if still_s < STILL_CPU_S or self.blocks <= self.at_once:
            return False
        if not ended:  # so long for the first of many: they cannot all end in time
            return still_s * ceil(self.blocks / self.at_once) > self.limit_s
        return still_s > TIMES_SLOWER * self.at_once * self.since_s / ended

    def _ends_in_time(self, spent_s: float, still_s: float) -> bool:
        """True where a launch takes long, but blocks end steadily and few are left."""
        if not self.ended or spent_s * self.blocks > LONGER * self.limit_s * self.ended:
            return False
        return still_s <= STEADY * self.at_once * self.since_s / self.ended
