"""Warms up the process that will hold a GPU, and reads the card's properties off the driver.

Runs in a worker child: after ``warm_up`` this process has a CUDA context and must not be forked.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any

import torch

from workbench.compile.cache import cache_folder
from workbench.errors import DeviceError
from workbench.model import H100, Target
from workbench.referee.clock.contestants import prepare_inductor
from workbench.referee.gpu_protocol import Card, WarmRequest

COPY_BYTES = 2**30
COPIES = 10
WARM_UP_S = 0.2
"""Copies that do not count: clocks of an idle card take so long to rise (2.63 TB/s were seen where 2.95 are
reached)."""
COPY_SHARE = 0.9
"""Part of the bus's peak that a copy reaches, until it is measured."""
CORES_AN_SM = {8: 64, 9: 128, 10: 128, 12: 128}
"""FP32 lanes of a multiprocessor by major architecture; 8.6 and later have 128."""


def warm_up(request: WarmRequest) -> Card:
    """Make the context and load what a first check would wait for. Raises ``DeviceError``."""
    _caches()
    try:
        torch.cuda.set_device(request.device)
        torch.cuda.init()  # type: ignore[no-untyped-call]
        _first_launches()
    except (RuntimeError, AssertionError) as error:
        raise DeviceError(f"the GPU cannot be used: {str(error).splitlines()[0]}") from error
    found = card(request.device, request.measure_copy)
    _IMPORTS.append(threading.Thread(target=_import_compiler, name="imports", daemon=True))
    _IMPORTS[-1].start()
    return found


def _caches() -> None:
    """Compiled baselines outlive the process, whose own folder is removed with it."""
    folder = cache_folder()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))


def _first_launches() -> None:
    """The kernels that bounds and comparisons use are loaded at their first call, milliseconds each."""
    import cuda.core  # noqa: F401

    import workbench.gpu.kernels
    import workbench.gpu.runner
    import workbench.referee.gpu_timing  # noqa: F401

    x = torch.linspace(-2.0, 2.0, 4096, device="cuda").reshape(64, 64)
    wide = x.to(torch.float64)
    for values in (x, wide):
        values.exp().sum(dim=1)
        values.amax(dim=1)
        (values @ values).square().mean().sqrt()
        torch.where(torch.isfinite(values), values.abs(), 0.0).nan_to_num(0.0, 0.0)
        torch.hypot(values, values).clamp_min(1e-300)
    (x.view(torch.int32).to(torch.int64) * 3).sum().item()
    torch.cuda.synchronize()


_IMPORTS: list[threading.Thread] = []


def _import_compiler() -> None:
    """torch.compile takes seconds to import; while the first kernel is written nobody waits for that."""
    with suppress(ImportError):
        prepare_inductor()  # first: the import itself would start a pool of processes
        import_module("torch._inductor.compile_fx")


def imported() -> None:
    """Wait for what is imported in the background: two threads must not load one module."""
    for thread in _IMPORTS:
        thread.join()


def card(device: int, measure_copy: bool) -> Card:
    """Everything the workbench wants to know of a card."""
    properties = torch.cuda.get_device_properties(device)
    read = _attributes(device)
    peak = 2e3 * read("MEMORY_CLOCK_RATE") * read("GLOBAL_MEMORY_BUS_WIDTH") / 8
    copied = copy_bytes_per_s() if measure_copy else 0.0
    free, _ = torch.cuda.mem_get_info(device)
    return Card(
        target=target_of(properties, read, copied or COPY_SHARE * peak),
        uuid=str(getattr(properties, "uuid", "")),
        driver=_driver_version(),
        torch=torch.__version__,
        dram_peak_bytes_per_s=peak,
        free_bytes=free,
        copy_measured=bool(copied),
    )


def target_of(properties: Any, read: Any, copy: float) -> Target:
    """The card as plans and models see it. ``read`` gives a driver's attribute by name."""
    major, minor = int(properties.major), int(properties.minor)
    cores = 128 if (major, minor) >= (8, 6) else CORES_AN_SM.get(major, 128)
    sms = int(properties.multi_processor_count)
    return Target(
        name=str(properties.name),
        arch=f"sm_{major}{minor}a" if major >= 9 else f"sm_{major}{minor}",
        sm_count=sms,
        dram_bytes_per_s=copy,
        # 0.9: what a kernel of fused multiply-adds sustains of the peak clock.
        fp32_flops_per_s=0.9 * 2e3 * cores * sms * read("CLOCK_RATE"),
        l2_bytes=read("L2_CACHE_SIZE"),
        shared_bytes_per_block=read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_bytes_per_sm=read("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_per_sm=read("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        threads_per_sm=read("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_sm=read("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        launch_us=H100.launch_us,
        dram_latency_ns=H100.dram_latency_ns,
        dram_bytes=int(properties.total_memory),
    )


def copy_bytes_per_s() -> float:
    """Bytes read plus bytes written by a copy of a gigabyte, the median of some on a card that is awake."""
    source = torch.ones(COPY_BYTES, dtype=torch.uint8, device="cuda")
    drain = torch.empty_like(source)
    awake = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < awake:
        drain.copy_(source)
        torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(COPIES):
        first: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        second: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        first.record()
        drain.copy_(source)
        second.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(second) * 1e-3)
    del source, drain
    torch.cuda.empty_cache()
    return 2 * COPY_BYTES / statistics.median(times)


def _attributes(device: int) -> Any:
    from cuda.bindings import driver

    def read(name: str) -> int:
        attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        error, value = driver.cuDeviceGetAttribute(attribute, device)
        if int(error):
            raise DeviceError(f"the driver does not tell {name}: {error.name}")
        return int(value)

    return read


def _driver_version() -> str:
    from cuda.bindings import driver

    _, version = driver.cuDriverGetVersion()
    return f"{version // 1000}.{version % 1000 // 10}"
