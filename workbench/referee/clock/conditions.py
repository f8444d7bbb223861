"""The card's state while it is timed: clocks, power, temperature, reasons for slowing down, other users.

Reads NVML through ``nvidia-ml-py`` where it is installed. Never changes a setting of the card.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from workbench.model import Conditions

REASONS: Mapping[int, str] = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "temperature",
    0x40: "hardware temperature",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons; idling and a monitor's sync are no reason to doubt a sample."""
DROPPED = frozenset(("hardware slowdown", "temperature", "hardware temperature", "power brake"))
"""A power cap is not among them: heavy kernels always run under it, and both sides feel it."""


class Snapshot(NamedTuple):
    """One look."""

    sm_mhz: int
    power_w: float
    temperature_c: int
    reasons: tuple[str, ...]


class Monitor(Protocol):
    """Looks at the card."""

    def look(self) -> Snapshot | None:
        """None where nothing can be seen."""
        ...

    def others(self) -> int | None:
        """Other processes that hold memory of the card."""
        ...


class Blind:
    """A monitor of a card that cannot be looked at."""

    def look(self) -> Snapshot | None:
        """Nothing."""
        return None

    def others(self) -> int | None:
        """Unknown."""
        return None


class Nvml:
    """A monitor of one GPU; asks the driver at every look, which takes some tens of microseconds."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle

    def look(self) -> Snapshot | None:
        """None when the driver refuses."""
        nvml = self._nvml
        with suppress(nvml.NVMLError):
            bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
            return Snapshot(
                sm_mhz=nvml.nvmlDeviceGetClockInfo(self._handle, nvml.NVML_CLOCK_SM),
                power_w=nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000.0,
                temperature_c=nvml.nvmlDeviceGetTemperature(self._handle, nvml.NVML_TEMPERATURE_GPU),
                reasons=named(bits),
            )
        return None

    def others(self) -> int | None:
        """None when the driver refuses; processes outside a container may stay unseen.

        The process that waits behind this one, forked from the same server, is idle and does not count.
        """
        with suppress(self._nvml.NVMLError):
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
            return len([one for one in running if one.pid != os.getpid() and not is_sibling(one.pid)])
        return None


def is_sibling(pid: int) -> bool:
    """True for a process with the same parent as this one."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return False
    return int(words[1]) == os.getppid()


def open_monitor(pci_bus: str) -> Monitor:
    """A monitor of the GPU with this PCI bus id; a blind one where NVML is missing or refuses."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return Blind()
    try:
        nvml.nvmlInit()
        return Nvml(nvml, nvml.nvmlDeviceGetHandleByPciBusId(pci_bus.encode()))
    except nvml.NVMLError:
        return Blind()


def named(bits: int) -> tuple[str, ...]:
    """Reasons in words."""
    return tuple(reason for bit, reason in REASONS.items() if bits & bit)


def is_throttled(seen: Snapshot) -> bool:
    """True when samples taken just before this look are not to be kept."""
    return not DROPPED.isdisjoint(seen.reasons)


def summary(seen: Sequence[Snapshot], dropped: int, others: int | None) -> Conditions:
    """What is told of a run."""
    reasons = dict.fromkeys(reason for one in seen for reason in one.reasons)
    return Conditions(
        sm_mhz_low=min((one.sm_mhz for one in seen), default=0),
        sm_mhz_high=max((one.sm_mhz for one in seen), default=0),
        power_w=max((one.power_w for one in seen), default=0.0),
        temperature_c=max((one.temperature_c for one in seen), default=0),
        throttled=tuple(reasons),
        dropped=dropped,
        other_processes=others,
    )
