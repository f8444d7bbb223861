"""Times single calls, caches emptied and the whole device joined; and gives each call contents of its own.

Runs in the solution's process and, for the baselines, in the trusted one: both are timed by the same code.
Owns no verdict. In the solution's process its figures are that process's word, which the trusted side checks
with a clock of its own (timing.py).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from workbench.referee.clock.options import ClockOptions

SPREAD = 0.25
"""Every float of an input is multiplied by a fresh number within an eighth of 1 before each timed call."""
ATTEMPTS = 3
LONGER = 3.0
MARGIN = 1.5
PREPARE_US = 150.0
"""What the host needs to issue the writing of new contents, generously."""
STARVING = 0.5
"""A device that has begun waits for a host whose call takes longer than this part of the time."""
JOIN_US = 20.0
"""Waiting for a device that has nothing left to do varies by less than this."""
JOINS = 15
"""So often it is waited for with nothing left to do: 25 to 40 us in a sandbox on an H100."""
NOW: Callable[[], float] = time.perf_counter
COPY: Callable[[Tensor, Tensor], Tensor] = Tensor.copy_

Prepare = Callable[[int], None]
"""Write the contents for an attempt: every attempt has contents of its own."""


@dataclass(frozen=True)
class Reading:
    """One timed call."""

    returned: Any
    time_us: float
    host_us: float
    """Until the call returned."""
    late_us: float = 0.0
    """By how much other streams ended after the current one; part of ``time_us``."""
    attempt: int = 0
    """Which contents it had."""


class Stopwatch(Protocol):
    """Times one call at a time."""

    flush_us: float

    def once(self, prepare: Prepare, act: Callable[[], Any], host_us: float) -> Reading:
        """Prepare, empty the caches, call, wait for everything. ``host_us``: what a call was seen to need."""
        ...

    def flush(self) -> None:
        """Empty the caches."""
        ...

    def join(self) -> None:
        """Wait for every stream of the device."""
        ...


class HostStopwatch:
    """For CPU tensors; caches as they are."""

    flush_us = 0.0

    def once(self, prepare: Prepare, act: Callable[[], Any], host_us: float) -> Reading:
        """See ``Stopwatch``."""
        prepare(0)
        started = NOW()
        returned = act()
        spent_us = 1e6 * (NOW() - started)
        return Reading(returned, spent_us, spent_us)

    def flush(self) -> None:
        """Nothing to empty."""

    def join(self) -> None:
        """Nothing to wait for."""


class DeviceStopwatch:
    """CUDA events around a call, less what a pair of them shows around nothing."""

    def __init__(self, options: ClockOptions) -> None:
        from workbench.referee.clock.gpu import lane_of

        self._lane = lane_of(options)
        self.flush_us = self._lane.flush_us
        self._join_us = idle_join_us(self._lane)

    def once(self, prepare: Prepare, act: Callable[[], Any], host_us: float) -> Reading:
        """See ``Stopwatch``.

        The stream is held up before the contents are written, so that the host gets ahead and work on a
        stream that waits for nothing meets old contents. A call for which the device had to wait is taken
        again, on other contents.
        """
        for attempt in range(ATTEMPTS):
            found, starved = self._once(prepare, act, host_us * MARGIN * LONGER**attempt, attempt)
            if not starved:
                break
        return found

    def _once(
        self, prepare: Prepare, act: Callable[[], Any], lead_us: float, attempt: int
    ) -> tuple[Reading, bool]:
        lane = self._lane
        lane.reset_l2()
        lane.busy(lead_us + PREPARE_US)
        prepare(attempt)
        lane.open_cold()
        first = lane.stamp()
        started = NOW()
        returned = act()
        host_us = 1e6 * (NOW() - started)
        behind = lane.passed(first)
        last = lane.stamp()
        last.synchronize()
        ended = NOW()
        lane.wait()
        late_us = beyond(1e6 * (NOW() - ended), self._join_us)
        time_us = max(lane.between_us(first, last) - lane.overhead_us, 0.01) + late_us
        return Reading(returned, time_us, host_us, late_us, attempt), behind and host_us > STARVING * time_us

    def flush(self) -> None:
        """See ``Stopwatch``."""
        self._lane.open_cold()

    def join(self) -> None:
        """See ``Stopwatch``."""
        self._lane.wait()


class Joined(Protocol):
    """What ``idle_join_us`` needs of a lane."""

    def busy(self, time_us: float) -> None:
        """Spin on the device."""
        ...

    def stamp(self) -> Any:
        """Record an event on the current stream."""
        ...

    def wait(self) -> None:
        """Every stream of the device."""
        ...


def idle_join_us(lane: Joined) -> float:
    """What it takes to wait for a device whose current stream has ended and that has no other work."""
    looks = []
    for _ in range(JOINS):
        lane.busy(PREPARE_US)
        last = lane.stamp()
        last.synchronize()
        ended = NOW()
        lane.wait()
        looks.append(1e6 * (NOW() - ended))
    return statistics.median(looks)


def beyond(waited_us: float, idle_us: float) -> float:
    """How long other streams went on after the current one; 0 for what an idle device shows too."""
    late_us = waited_us - idle_us
    return late_us if late_us > max(JOIN_US, idle_us) else 0.0


def stopwatch(device: str, options: ClockOptions) -> Stopwatch:
    """The one for tensors of a device."""
    return DeviceStopwatch(options) if device == "cuda" else HostStopwatch()


def vary(place: Tensor, base: Tensor, seed: int) -> None:
    """Write ``base``, every float changed a little, into ``place``, whose version counter stays as it was.

    The same seed gives the same values in every process on one kind of device. Zeros stay zeros, and so do
    infinities; integers are written as they are.
    """
    if not base.is_floating_point():
        COPY(place.data, base)
        return
    generator = torch.Generator(base.device)
    generator.manual_seed(seed)
    factor = torch.rand(base.shape, generator=generator, device=base.device, dtype=torch.float32)
    factor.mul_(SPREAD).add_(1.0 - SPREAD / 2)
    COPY(place.data, base * factor.to(base.dtype))
