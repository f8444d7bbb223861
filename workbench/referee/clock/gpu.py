"""The last touch of the GPU: flush, marks, events, waiting. Runs in a worker child.

Owns one flush buffer a process, which is all the memory the clock adds beyond copies of small inputs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from cuda.bindings import driver

from workbench.errors import DeviceError
from workbench.referee.clock.options import ClockOptions
from workbench.referee.clock.statistics import quietest

OPEN, CLOSE, STEP = 0x5EED0001, 0x5EED0002, 0x5EED0003
"""Values of the memory sets that mark samples, and steps in them."""
MARK_BYTES = 4096
CALIBRATIONS = 20
HOST_CALLS = 50
HOST_S = 0.02
"""Host latency is taken from fewer calls where so many would keep the device busy for longer than this."""


class GpuLane:
    """Marks and flushes on the current stream of the current device."""

    def __init__(self, flush_bytes: int) -> None:
        self._flush = torch.empty(flush_bytes, dtype=torch.uint8, device="cuda")
        self._spare = torch.empty(MARK_BYTES, dtype=torch.uint8, device="cuda")
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._cycles_per_us = getattr(properties, "clock_rate", 1_980_000) * 1e-3
        self.flush_us = 0.0
        self.overhead_us = 0.0
        self.calibrated = False
        """True once ``overhead_us`` includes the launch of a kernel: what events show over CUPTI."""
        self.flush_us = statistics.median(self._times_us(self.open_cold))
        self.overhead_us = quietest(self._times_us(lambda: None))

    @property
    def held_bytes(self) -> int:
        """Memory of the card the lane holds."""
        return self._flush.nbytes + self._spare.nbytes

    def open_cold(self) -> None:
        """Write the whole flush buffer."""
        fill(self._flush, OPEN)

    def open_warm(self) -> None:
        """Write a few bytes."""
        fill(self._spare, OPEN)

    def close(self) -> None:
        """Write a few bytes."""
        fill(self._spare, CLOSE)

    def between_steps(self) -> None:
        """Write a few bytes."""
        fill(self._spare, STEP)

    def stamp(self) -> torch.cuda.Event:
        """Record a timing event."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def passed(self, stamp: Any) -> bool:
        """Ask the event; takes about a microsecond."""
        return bool(stamp.query())

    def now(self) -> float:
        """Seconds of no particular beginning."""
        return time.perf_counter()

    def short(self, _: int) -> tuple[torch.Tensor, ...]:
        """One kernel that does next to nothing, for calibration."""
        return (self._spare.add_(1),)

    def between_us(self, first: Any, second: Any) -> float:
        """Events resolve half a microsecond or better."""
        return 1e3 * float(first.elapsed_time(second))

    def busy(self, time_us: float) -> None:
        """Spin on the device."""
        if time_us > 0.0:
            torch.cuda._sleep(int(time_us * self._cycles_per_us))  # type: ignore[no-untyped-call]

    def reset_l2(self) -> None:
        """Turn persisting lines into ordinary ones."""
        _done(driver.cuCtxResetPersistingL2Cache())

    def wait(self) -> None:
        """Every stream of the device."""
        torch.cuda.synchronize()

    def _times_us(self, act: Callable[[], None]) -> list[float]:
        """Between two events around ``act``, the host well ahead."""
        stamps = []
        for _ in range(CALIBRATIONS):
            self.busy(50.0)
            first = self.stamp()
            act()
            stamps.append((first, self.stamp()))
        self.wait()
        return [self.between_us(*pair) for pair in stamps]


@cache
def shared_lane(device: int, flush_bytes: int) -> GpuLane:
    """The process's one lane of a device."""
    with torch.cuda.device(device):
        return GpuLane(flush_bytes)


def lane_of(options: ClockOptions) -> GpuLane:
    """The lane of the current device."""
    return shared_lane(torch.cuda.current_device(), options.flush_bytes)


def pci_bus_id() -> str:
    """Of the current device, as NVML names it."""
    device = _done(driver.cuDeviceGet(torch.cuda.current_device()))
    return str(_done(driver.cuDeviceGetPCIBusId(32, device)).split(b"\0")[0].decode())


def host_us(act: Callable[[int], Any]) -> float:
    """Median host time to issue one call, the device kept out of the way; microseconds."""
    times = []
    torch.cuda.synchronize()
    started = time.perf_counter()
    act(0)
    torch.cuda.synchronize()
    calls = max(3, min(HOST_CALLS, int(HOST_S / (time.perf_counter() - started))))
    for _ in range(calls):
        started = time.perf_counter()
        act(0)
        times.append(time.perf_counter() - started)
    torch.cuda.synchronize()
    return 1e6 * statistics.median(times)


def fill(tensor: torch.Tensor, value: int) -> None:
    """Set every word of a tensor, in order with the current stream."""
    stream = torch.cuda.current_stream().cuda_stream
    _done(driver.cuMemsetD32Async(tensor.data_ptr(), value, tensor.nbytes // 4, stream))


def _done(answer: tuple[Any, ...]) -> Any:
    """The value of a driver call. Raises ``DeviceError``: an error here is sticky, the process is lost."""
    error, *values = answer
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DeviceError(f"the CUDA driver refused while timing: {error.name}")
    return values[0] if values else None
