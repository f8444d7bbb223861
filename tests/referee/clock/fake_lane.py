"""A device that counts its own nanoseconds: kernels are calls of ``work``, host time is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from workbench.referee.clock.lane import Record, Role

FLUSH_NS = 90_000
GAP_NS = 1_000


@dataclass
class FakeLane:
    """Is a lane and a trace at once. ``behind`` work ends later than its record says."""

    flush_us: float = FLUSH_NS * 1e-3
    overhead_us: float = 2.0
    held_bytes: int = 0
    time_ns: int = 1
    """The device's clock; it counts what was issued, whether the host is there yet or not."""
    host_ns: int = 1
    issue_ns: int = 1000
    """What the host takes to issue one piece of work."""
    hidden_ns: int = 0
    records: list[Record] = field(default_factory=list)
    tracing: bool = True
    lost: int = 0
    """Records that the trace forgets."""
    calibrated: bool = True
    behind: bool = False
    """True when the device had to wait for the host since the last flush."""
    left_behind_us: float = 0.0
    """What lines of the L2 that a kernel pinned cost whoever comes next."""

    def work(self, time_us: float, kernels: int = 1) -> None:
        """One call of a contestant."""
        time_us += self.left_behind_us
        for _ in range(kernels):
            self._record("work", int(time_us * 1e3 / kernels), GAP_NS)

    def work_behind(self, time_us: float) -> None:
        """Work that no clock of the device sees before the next wait."""
        self.hidden_ns += int(time_us * 1e3)

    def open_cold(self) -> None:
        self.behind = False
        self._record("open", FLUSH_NS, 0)

    def open_warm(self) -> None:
        self._record("open", 100, 0)

    def close(self) -> None:
        self._record("close", 100, 0)

    def between_steps(self) -> None:
        self._record("step", 100, 0)

    def stamp(self) -> int:
        self.time_ns += 1000
        self.host_ns += 100
        return self.time_ns

    def hold_up(self, time_us: float) -> None:
        """The host is late and the device waits for it."""
        self.time_ns += int(time_us * 1e3)
        self.host_ns = self.time_ns
        self.behind = True

    def passed(self, stamp: int) -> bool:
        return self.behind

    def now(self) -> float:
        """The wall clock."""
        return self.host_ns * 1e-9

    def short(self, _: int) -> tuple[torch.Tensor, ...]:
        self.work(1.5)
        return ones(0)

    def between_us(self, first: int, second: int) -> float:
        return (second - first) * 1e-3

    def busy(self, time_us: float) -> None:
        self._record("work", int(time_us * 1e3), 0)

    def reset_l2(self) -> None:
        """Lines of a kernel that the device has not come to yet are pinned after this."""
        if self.time_ns + self.hidden_ns <= self.host_ns:
            self.left_behind_us = 0.0

    def wait(self) -> None:
        self.time_ns = self.host_ns = max(self.time_ns + self.hidden_ns, self.host_ns)
        self.hidden_ns = 0

    def collect(self) -> list[Record]:
        records, self.records = self.records[self.lost :], []
        return records

    def running(self) -> FakeLane:
        self.records = []
        return self

    def __enter__(self) -> FakeLane:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _record(self, role: Role, length_ns: int, gap_ns: int) -> None:
        self.host_ns += self.issue_ns
        start = self.time_ns + gap_ns
        self.time_ns = start + length_ns
        self.records.append(Record(start, self.time_ns, role))


def ones(_: int) -> tuple[torch.Tensor, ...]:
    """What every honest call returns here."""
    return (torch.ones(4),)


def order(names: Sequence[str]) -> str:
    """Initials, for tests of the order."""
    return "".join(name[0] for name in names)
