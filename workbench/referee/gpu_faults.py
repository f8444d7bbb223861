"""What an error of CUDA says about a kernel, in words a student understands. Pure.

Owns the list of the driver's errors: which are the kernel's fault, which break the context, which are the
machine's. Errors come as exceptions of torch, cuda.core, cuda.bindings or this package; each names its error
by a constant or in words, and both are known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from workbench.errors import GpuError, GpuFault
from workbench.model import Crashed, Diagnostic, LaunchFailed, Outcome

Blame = Literal["launch", "kernel", "memory", "machine"]


@dataclass(frozen=True)
class Fault:
    """One error of the driver."""

    blame: Blame
    message: str
    lost: bool
    """True when the context is broken and its process must end."""


_ILLEGAL = "the kernel read or wrote an address that is not its own (illegal address)"
_FAULTS: tuple[tuple[tuple[str, ...], Fault], ...] = (
    (
        ("ILLEGAL_ADDRESS", "illegal memory access", "(700)"),
        Fault("kernel", f"{_ILLEGAL}; check indices at the ends of rows and of the grid", True),
    ),
    (
        ("MISALIGNED_ADDRESS", "misaligned address"),
        Fault(
            "kernel",
            "the kernel used an address that is not a multiple of the access's size (misaligned address); "
            "a float4 needs 16 bytes",
            True,
        ),
    ),
    (
        ("CUDA_ERROR_ASSERT", "device-side assert triggered"),
        Fault("kernel", "an assert() in the kernel failed", True),
    ),
    (
        ("ILLEGAL_INSTRUCTION", "illegal instruction"),
        Fault("kernel", "the kernel came upon __trap() or an illegal instruction", True),
    ),
    (
        ("HARDWARE_STACK_ERROR", "hardware stack error"),
        Fault("kernel", "the kernel ran over its stack: deep recursion, or a stray write to the stack", True),
    ),
    (
        ("INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space", "INVALID_PC"),
        Fault("kernel", "the kernel jumped or pointed to a place that cannot be used", True),
    ),
    (
        ("TENSOR_MEMORY_LEAK", "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
        Fault("kernel", "the kernel stopped on the GPU (unspecified launch failure), as __trap() does", True),
    ),
    (
        ("LAUNCH_TIMEOUT", "launch timed out"),
        Fault("kernel", "the kernel ran so long that the driver ended it", True),
    ),
    (
        ("LAUNCH_OUT_OF_RESOURCES", "too many resources requested"),
        Fault("launch", "too many registers or too much shared memory for a block of this size", False),
    ),
    (
        ("ECC_UNCORRECTABLE", "uncorrectable ECC", "uncorrectable NVLink", "NVLINK_UNCORRECTABLE"),
        Fault("machine", "the GPU reports a memory error that it cannot correct", True),
    ),
    (
        ("DEVICE_LOST", "DEVICES_UNAVAILABLE", "devices unavailable", "busy or unavailable", "DEINITIALIZED"),
        Fault("machine", "the GPU is gone or held by another process", True),
    ),
    (
        ("OUT_OF_MEMORY", "out of memory", "OutOfMemoryError"),
        Fault("memory", "the GPU's memory does not suffice", False),
    ),
    (
        ("CUDA_ERROR_INVALID_VALUE", "invalid argument", "invalid configuration"),
        Fault("launch", "the driver refuses the launch: an argument or the configuration is invalid", False),
    ),
)
UNKNOWN = "CUDA error"


def fault_of(error: BaseException) -> Fault | None:
    """Explain an exception; None when it is none of CUDA's."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, GpuError) and not isinstance(error, GpuFault):
        return Fault("launch", str(error), False)
    for words, fault in _FAULTS:
        if any(word in text for word in words):
            return fault
    if isinstance(error, GpuFault):
        return Fault("kernel", str(error), True)
    if UNKNOWN in text or "CUDA_ERROR_" in text or type(error).__name__ in ("CUDAError", "AcceleratorError"):
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return Fault("kernel", f"the GPU failed: {first[:200]}", True)
    return None


def outcome_of(fault: Fault, error: BaseException, case: str, during: str) -> Outcome:
    """The verdict for a fault that is not the machine's."""
    if fault.blame == "launch":
        line = error.line if isinstance(error, GpuError) else 1
        return LaunchFailed(case=case, diagnostics=(Diagnostic(line=line, message=fault.message),))
    return Crashed(case=case, message=f"{fault.message}, {during}")
