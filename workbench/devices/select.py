"""From a name to a device. The only place that knows all of them."""

from __future__ import annotations

from workbench.devices.base import Device
from workbench.devices.emulator import EmulatorDevice
from workbench.devices.null import NullDevice
from workbench.errors import UsageError, nearest
from workbench.model import H100, Target

NAMES = ("auto", "emulator", "cuda", "null")


def open_device(name: str, target: Target = H100) -> Device:
    """Open a device for ``target``. Raises ``UsageError`` for one that does not exist here.

    ``auto`` is the emulator for now: timings on a real GPU are not built yet.
    """
    match name:
        case "auto" | "emulator":
            return EmulatorDevice(target)
        case "null":
            return NullDevice(target)
        case "cuda":
            raise UsageError(
                "the cuda device is not available yet: use --device emulator, which checks the same kernel "
                "on the CPU and models its time"
            )
        case _:
            raise UsageError(f"unknown device {name!r}; there are {', '.join(NAMES)}.{nearest(name, NAMES)}")
