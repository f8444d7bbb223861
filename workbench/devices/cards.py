"""Which GPUs this machine has, whether one can be used, and what was measured of it before.

Owns the questions put to the driver by a child without torch, so that no CUDA context is made here, and the
sentence a person reads when there is no usable GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from workbench.compile.cache import Store, cache_folder
from workbench.compile.options import nvrtc_version
from workbench.errors import DeviceError
from workbench.model import Value
from workbench.referee.gpu_protocol import Card
from workbench.workers import Limits, Returned, light

OLDEST = (8, 0)
"""Compute capability kernels are written for at least."""
LIMITS = Limits(wall_s=120.0, cpu_s=30, memory_bytes=2**40)
CAPABILITY = (75, 76)
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` and ``MINOR`` of cuda.h."""
PROHIBITED = 2
"""``CU_COMPUTEMODE_PROHIBITED``."""
COMPUTE_MODE = 20


class Seen(Value):
    """One GPU, as the driver lists it."""

    index: int
    name: str
    uuid: str
    capability: tuple[int, int]
    total_bytes: int
    prohibited: bool = False
    others: int | None = None
    """Processes that hold memory of it; None when that cannot be seen."""


class Probe(Value):
    """What the driver answered."""

    driver: str = ""
    """Version of CUDA it supports; empty without a driver."""
    gpus: tuple[Seen, ...] = ()
    problem: str = ""
    """Why there are none."""


@cache
def probed() -> Probe:
    """Ask the driver, once a process. Never raises."""
    try:
        result = light().call("workbench.devices.cards:look", b"", LIMITS)
    except DeviceError as error:
        return Probe(problem=str(error))
    if not isinstance(result, Returned):
        return Probe(problem=f"asking the NVIDIA driver failed: {getattr(result, 'message', 'no answer')}")
    return Probe.model_validate_json(result.payload)


def usable(probe: Probe) -> tuple[Seen | None, str]:
    """The GPU to use, or why there is none, in one line."""
    if not probe.gpus:
        return None, probe.problem
    reasons = []
    for gpu in probe.gpus:
        if gpu.capability < OLDEST:
            major, minor = gpu.capability
            reasons.append(
                f"{gpu.name} is of sm_{major}{minor}; kernels here are written for sm_80 (A100) or newer"
            )
        elif gpu.prohibited:
            reasons.append(
                f"{gpu.name} is set to compute mode PROHIBITED; ask whoever looks after the machine"
            )
        elif told := _unlike(nvrtc_version(), probe.driver):
            reasons.append(told)
        else:
            return gpu, ""
    return None, "; ".join(dict.fromkeys(reasons))


def _unlike(nvrtc: str, driver: str) -> str:
    """A driver loads machine code of its own major version and of earlier ones."""
    if int(nvrtc.split(".")[0]) <= int(driver.split(".")[0]):
        return ""
    return (
        f"the driver supports CUDA {driver}, the compiler is NVRTC {nvrtc}, whose code it cannot load: "
        "install a newer driver"
    )


def told(gpu: Seen, probe: Probe) -> str:
    """The GPU in one line, for ``doctor`` and for whoever asks what was picked."""
    major, minor = gpu.capability
    users = f", in use by {_processes(gpu.others)} besides" if gpu.others else ""
    size = f"{gpu.total_bytes / 1e9:.0f} GB"
    return f"{gpu.name}, sm_{major}{minor}, {size}, driver for CUDA {probe.driver}{users}"


def _processes(count: int) -> str:
    return "another process" if count == 1 else f"{count} other processes"


# ------------------------------------------------------------------------------------ in the child


def look(_: bytes) -> bytes:
    """Worker function: ask the driver without making a context."""
    return _looked().model_dump_json().encode()


def _looked() -> Probe:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Probe(problem="no NVIDIA driver (libcuda.so.1) on this machine")
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    known = f"{version.value // 1000}.{version.value % 1000 // 10}"
    code = driver.cuInit(0)
    if code == 100:
        return Probe(driver=known, problem="the NVIDIA driver is installed but finds no GPU")
    if code:
        return Probe(driver=known, problem=f"the NVIDIA driver does not start (error {code} of cuInit)")
    driver.cuDeviceGetCount(ctypes.byref(count))
    if count.value == 0:
        return Probe(driver=known, problem="the NVIDIA driver is installed but finds no GPU")
    return Probe(driver=known, gpus=tuple(_seen(driver, i) for i in range(count.value)))


def _seen(driver: Any, index: int) -> Seen:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    total, uuid = ctypes.c_size_t(), (ctypes.c_ubyte * 16)()
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, 256, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    driver.cuDeviceGetUuid_v2(ctypes.byref(uuid), device)

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        return value.value

    words = bytes(uuid).hex()
    dashed = "-".join((words[:8], words[8:12], words[12:16], words[16:20], words[20:]))
    return Seen(
        index=index,
        name=name.value.decode(errors="replace"),
        uuid=dashed,
        capability=(attribute(CAPABILITY[0]), attribute(CAPABILITY[1])),
        total_bytes=total.value,
        prohibited=attribute(COMPUTE_MODE) == PROHIBITED,
        others=_others(dashed),
    )


def _others(uuid: str) -> int | None:
    try:
        pynvml = import_module("pynvml")

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
        return len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except Exception:  # no NVML, no right to ask: then it is not known
        return None


# ------------------------------------------------------------------------------------ remembered


def kept_card(uuid: str) -> Card | None:
    """What was read and measured of a card earlier; None when nothing was."""
    body = _store().get(_key(uuid))
    if body is None:
        return None
    try:
        return Card.model_validate_json(body)
    except ValidationError:
        return None


def keep_card(card: Card) -> None:
    """Remember a card whose copy bandwidth was measured."""
    if card.copy_measured:
        _store().put(_key(card.uuid), card.model_dump_json().encode())


def _store() -> Store:
    return Store(cache_folder() / "cards")


def _key(uuid: str) -> str:
    return hashlib.sha256(f"card 1 {uuid}".encode()).hexdigest()
