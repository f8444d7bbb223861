"""The CUDA driver as this package needs it, and the one place that knows how a launch is made.

A launch goes straight to ``cuLaunchKernelEx`` through ctypes with every argument laid out beforehand: of
the routes compared on an H100 it leaves the least work to the host. Everything that is done once goes
through ``cuda.core`` and ``cuda.bindings``. Owns no tensors and no plans.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from workbench.errors import DeviceError, GpuError, GpuFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.gpu.variables import Section

    Entry = Callable[["Pointer", "Pointer", "Pointer", None], int]
    """``cuLaunchKernelEx(config, function, parameters, NULL)``: an error code comes back."""

COOPERATIVE = 2
"""``CU_LAUNCH_ATTRIBUTE_COOPERATIVE``."""
CLUSTER_DIMENSION = 4
"""``CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION``."""
PORTABLE_CLUSTER = 8
"""Blocks of a cluster that every card takes; more must be asked for."""
LEGACY = (0, 1)
"""Handles of the default stream that waits for the others."""
INVALID_CONTEXT = 201
OUT_OF_RESOURCES = 701
NOT_TOGETHER = 720
"""``CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE``."""
STICKY = frozenset((700, 702, 710, 714, 715, 716, 717, 718, 719))
"""Errors after which a context is lost: illegal address, misaligned, assert, timeout and their kin."""


Pointer = Any
"""An address as ``pointer_to`` makes it: ctypes passes it on as it is; a number would be looked at first."""


class Attribute(ctypes.Structure):
    """``CUlaunchAttribute`` as cuda.h lays it out."""

    _fields_ = (("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig`` as cuda.h lays it out."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Function:
    """A kernel loaded into one device's context, ready to be launched."""

    address: int
    parameters: tuple[int, ...]
    """Size of each parameter, bytes."""
    registers: int
    static_shared_bytes: int
    most_threads: int
    """Threads of a block for which its registers suffice."""


def entry_of(library: ctypes.CDLL) -> Entry:
    """``cuLaunchKernelEx`` of a driver library. The call lets go of the interpreter's lock: it may block.

    It declares no types, which would cost a conversion each: give it what ``pointer_to`` makes and None.
    """
    entry: Entry = library.cuLaunchKernelEx
    return entry


def pointer_to(address: int) -> Pointer:
    """What ctypes passes as this address. It owns nothing there."""
    return ctypes.byref(ctypes.c_char.from_address(address))


class Driver:
    """The machine's own driver. Tests put a recorded one in its place."""

    def __init__(self) -> None:
        try:
            self.launch = entry_of(ctypes.CDLL("libcuda.so.1"))
        except OSError:
            raise DeviceError("there is no NVIDIA driver here (libcuda.so.1 is missing)") from None
        _check(_bindings().cuInit(0))

    def kernels_of(self, image: bytes, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """Handles by name expression, out of a cubin; ``names`` pairs them with the mangled names.

        Raises ``GpuError`` for code that was not made for this card.
        """
        from cuda.core import ObjectCode

        try:
            code = ObjectCode.from_cubin(image)
            return {name: code.get_kernel(mangled) for name, mangled in names}
        except Exception as error:  # cuda.core has no public base class for what the driver answers
            if not _is_driver_error(error):
                raise
            raise GpuError(_not_loaded(str(error))) from error

    def function(self, kernel: Any, device: int, shared_bytes: int, cluster_blocks: int) -> Function:
        """Load a kernel into a device's context, allowed ``shared_bytes`` of dynamic shared memory."""
        bindings = _bindings()
        handle = bindings.CUkernel(int(kernel.handle))
        of = bindings.CUfunction_attribute
        if cluster_blocks > PORTABLE_CLUSTER:
            wide = of.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            _check(bindings.cuKernelSetAttribute(wide, 1, handle, device))
        if shared_bytes:
            dynamic = of.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (refused,) = bindings.cuKernelSetAttribute(dynamic, shared_bytes, handle, device)
            if int(refused):
                raise GpuError(_too_much_shared(self, device, shared_bytes))
        with self.current(device):
            found = _check(bindings.cuKernelGetFunction(handle))
            _check(bindings.cuFuncLoad(found))  # nothing may be loaded later, while a graph is captured

            def attribute(which: Any) -> int:
                return int(_check(bindings.cuFuncGetAttribute(which, found)))

            return Function(
                address=int(found),
                parameters=_parameters(found),
                registers=attribute(of.CU_FUNC_ATTRIBUTE_NUM_REGS),
                static_shared_bytes=attribute(of.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
                most_threads=attribute(of.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            )

    def most_shared_bytes(self, device: int) -> int:
        """Shared memory that one block may have, static and dynamic together."""
        bindings = _bindings()
        which = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        return int(_check(bindings.cuDeviceGetAttribute(which, device)))

    def most_together(self, function: Function, device: int, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that are on a device at the same time."""
        bindings = _bindings()
        which = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        with self.current(device):
            handle = bindings.CUfunction(function.address)
            each = _check(bindings.cuOccupancyMaxActiveBlocksPerMultiprocessor(handle, threads, shared_bytes))
        return int(each) * int(_check(bindings.cuDeviceGetAttribute(which, device)))

    def section(self, kernel: Any, device: int, section: Section) -> bytes:
        """What the variables of a kernel's module hold on a device: one copy, or one for each of them.

        Raises ``GpuError`` when the driver does not know one.
        """
        bindings = _bindings()
        with self.current(device):
            library = _check(bindings.cuKernelGetLibrary(bindings.CUkernel(int(kernel.handle))))

            def address(place: tuple[str, int, int]) -> int:
                return int(_check(bindings.cuLibraryGetGlobal(library, place[0].encode()))[0])

            low, high = (pick(section.places, key=itemgetter(1)) for pick in (min, max))
            begin = address(low) - low[1]
            if address(high) - high[1] == begin:
                with suppress(GpuError):
                    return _copied(begin, section.nbytes)
            held = bytearray(section.nbytes)
            for name, first, nbytes in section.places:
                held[first : first + nbytes] = _copied(address((name, first, nbytes)), nbytes)
            return bytes(held)

    def capture_of(self, stream: int, device: int) -> int:
        """Number of the graph capture a stream takes part in; 0 for none."""
        if stream in LEGACY:  # it cannot be captured, and asking while another is would be an error
            return 0
        with self.current(device):
            status, number, *_ = _check(_bindings().cuStreamGetCaptureInfo(_bindings().CUstream(stream)))
        return int(number) if int(status) else 0

    def event(self, device: int) -> Any:
        """An event for ``follow``; it lives as long as the process."""
        bindings = _bindings()
        with self.current(device):
            return _check(bindings.cuEventCreate(int(bindings.CUevent_flags.CU_EVENT_DISABLE_TIMING)))

    def follow(self, later: int, earlier: int, event: Any, device: int) -> None:
        """Make one stream wait for all that another has been given so far. Raises ``GpuError``.

        Where that other stream has been destroyed, this thread waits for the device.
        """
        bindings = _bindings()
        with self.current(device):
            (refused,) = bindings.cuEventRecord(event, bindings.CUstream(earlier))[:1]
            if int(refused):
                _check(bindings.cuCtxSynchronize())
            else:
                _check(bindings.cuStreamWaitEvent(bindings.CUstream(later), event, 0))

    def make_current(self, device: int) -> None:
        """Give this thread the device's context: a thread that has not used CUDA yet has none."""
        _check(_bindings().cuCtxSetCurrent(_primary_context(device)))

    @contextmanager
    def current(self, device: int) -> Iterator[None]:
        """The device's context for a while, then the one before."""
        _check(_bindings().cuCtxPushCurrent(_primary_context(device)))
        try:
            yield
        finally:
            _check(_bindings().cuCtxPopCurrent())


@lru_cache(1)
def driver() -> Driver:
    """This process's driver. Raises ``DeviceError`` where there is none."""
    return Driver()


def refusal(code: int, what: str) -> GpuError:
    """The error for a launch the driver answered with ``code``; ``what`` names the kernel."""
    if code in STICKY:
        return GpuFault(f"{what}: {_error_text(code)}; this or an earlier kernel broke the device's context")
    if code == NOT_TOGETHER:
        return GpuError(f"{what}: more blocks than are on this GPU at the same time (cooperative=True)")
    if code == OUT_OF_RESOURCES:
        return GpuError(f"{what}: too many registers or too much shared memory for a block of this size")
    return GpuError(f"{what}: the driver refuses the launch: {_error_text(code)}")


def _bindings() -> Any:
    from cuda.bindings import driver as bindings

    return bindings


@cache
def _primary_context(device: int) -> Any:
    """Retained once and for the life of the process: torch's tensors live in it."""
    return _check(_bindings().cuDevicePrimaryCtxRetain(device))


def _copied(address: int, nbytes: int) -> bytes:
    """Bytes of device memory. Raises ``GpuError``."""
    held = (ctypes.c_char * nbytes)()
    bindings = _bindings()
    _check(bindings.cuMemcpyDtoH(ctypes.addressof(held), bindings.CUdeviceptr(address), nbytes))
    return held.raw


def _check(answer: tuple[Any, ...]) -> Any:
    """The values of a binding's answer. Raises ``GpuFault`` for a lost context, else ``GpuError``."""
    error, *values = answer
    if int(error):
        raise refusal(int(error), "CUDA driver")
    return values[0] if len(values) == 1 else tuple(values)


def _parameters(function: Any) -> tuple[int, ...]:
    sizes: list[int] = []
    while True:
        error, _, size = _bindings().cuFuncGetParamInfo(function, len(sizes))
        if int(error):
            return tuple(sizes)
        sizes.append(int(size))


def _error_text(code: int) -> str:
    try:
        bindings = _bindings()
        error = bindings.CUresult(code)
        (_, text), (_, name) = bindings.cuGetErrorString(error), bindings.cuGetErrorName(error)
        return f"{text.decode()} ({name.decode()})"
    except (ImportError, ValueError, AttributeError, RuntimeError):  # no driver, or a code it does not know
        return f"error {code}"


def _is_driver_error(error: Exception) -> bool:
    return any(kind.__name__ == "CUDAError" for kind in type(error).__mro__)


def _not_loaded(text: str) -> str:
    if "NO_BINARY" in text or "INVALID_IMAGE" in text or "INVALID_SOURCE" in text:
        return "the machine code was not made for this GPU: compile for its own architecture"
    return f"the driver does not load the kernel: {text}"


def _too_much_shared(of: Driver, device: int, asked: int) -> str:
    most = of.most_shared_bytes(device)
    return f"{asked:,} bytes of dynamic shared memory; a block of this GPU has at most {most:,} in all"
