"""From a name to a device. The only place that knows all of them."""

from __future__ import annotations

from pathlib import Path

from workbench.compile.toolchain import Fact
from workbench.devices.base import Device
from workbench.devices.cards import Probe, Seen, kept_card, probed, usable
from workbench.devices.cards import told as card_told
from workbench.devices.emulator import EmulatorDevice
from workbench.devices.null import NullDevice
from workbench.errors import UsageError, nearest
from workbench.model import H100, Target

HAZARDS = ("auto", "sanitizer")
NAMES = ("auto", "emulator", "cuda", "null")


def open_device(name: str, target: Target = H100) -> Device:
    """Open a device. Raises ``UsageError`` for one that does not exist here.

    ``auto`` is the GPU where there is a usable one, else the emulator; ``told`` says which and why.
    ``target`` is the card the emulator and the null device stand for; a GPU is its own target.
    """
    match name:
        case "auto":
            return _cuda(probed()) or EmulatorDevice(target)
        case "emulator":
            return EmulatorDevice(target)
        case "null":
            return NullDevice(target)
        case "cuda":
            device = _cuda(probed())
            if device is None:
                raise UsageError(
                    f"no usable GPU: {usable(probed())[1]}. --device emulator checks the same kernel on the "
                    "CPU and models its time"
                )
            return device
        case _:
            raise UsageError(f"unknown device {name!r}; there are {', '.join(NAMES)}.{nearest(name, NAMES)}")


def told(probe: Probe | None = None) -> str:
    """What ``auto`` picks on this machine, and why, in one line."""
    probe = probe or probed()
    gpu, reason = usable(probe)
    if gpu is None:
        return f"emulator, modelled times: {reason}"
    return f"cuda, measured times: {card_told(gpu, probe)}"


def device_fact() -> Fact:
    """What ``auto`` picks, as a line of ``workbench doctor``."""
    gpu, _ = usable(probed())
    return Fact(name="device", ok=True, needed=False, found=f"auto is {told()}" + _measured(gpu))


def _measured(gpu: Seen | None) -> str:
    card = kept_card(gpu.uuid) if gpu is not None else None
    return f"; copies {card.target.dram_bytes_per_s * 1e-12:.2f} TB/s (measured)" if card else ""


def keep_receipts(device: Device, folder: Path) -> None:
    """Have a device that measures write its receipts below a session's folder; others have none to write."""
    keep = getattr(device, "keep_receipts", None)
    if keep is not None:
        keep(folder / "receipts")


def look_for_hazards(device: Device, how: str) -> None:
    """``sanitizer`` has a GPU run every kernel that passes under compute-sanitizer as well.

    ``auto`` leaves it at what the device does anyway. Raises ``UsageError`` for anything else, or elsewhere.
    """
    if how not in HAZARDS:
        raise UsageError(f"unknown way to look for hazards {how!r}; there are {', '.join(HAZARDS)}")
    if how == "auto":
        return
    look = getattr(device, "look_with_sanitizer", None)
    if look is None:
        raise UsageError("compute-sanitizer watches a GPU; the emulator looks at every access anyway")
    look()


def _cuda(probe: Probe) -> Device | None:
    gpu, _ = usable(probe)
    if gpu is None:
        return None
    from workbench.devices.cuda import CudaDevice
    from workbench.referee.gpu_judge import GpuOptions

    return CudaDevice(gpu.index, gpu.uuid, GpuOptions(slow_baselines=True))
