"""Ways to launch one kernel, and the pieces of a launch: what ``launch_figures.py`` times side by side.

Owns how each is called; times nothing. A route that cannot be had here is left out with the reason.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from workbench.gpu.guard import likeness
from workbench.gpu.kernels import Kernels, images
from workbench.gpu.program import CONFIG_WORDS, STREAM_WORD, Frame, cells_of, frame_of
from workbench.gpu.runner import PlanRunner
from workbench.gpu.swift import swift_launch, template_of
from workbench.live.applied import Applied
from workbench.live.gpu_calls import architecture
from workbench.plan.steps import Plan

Call = Callable[[], Any]
C_CALLS = 20
LOOPS = """
#include <time.h>
typedef int (*Ex)(void*, void*, void**, void**);
typedef int (*Plain)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                     void**, void**);
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}
double loop_ex(Ex launch, int n, void* config, void* function, void** parameters) {
    double began = now();
    for (int i = 0; i < n; i++) launch(config, function, parameters, 0);
    return (now() - began) / n;
}
double loop_plain(Plain launch, int n, void* stream, void* function, void** parameters, unsigned grid,
                  unsigned block) {
    double began = now();
    for (int i = 0; i < n; i++) launch(function, grid, 1, 1, block, 1, 1, 0, stream, parameters, 0);
    return (now() - began) / n;
}
"""
"""The driver's own cost of a launch, no Python in it; each returns microseconds a call."""


class Bench(NamedTuple):
    """One kernel, loaded, and tensors for it: ``kernel(x, y, cols)``, one launch a plan."""

    x: torch.Tensor
    source: str
    plan: Plan
    kernels: Kernels
    applied: Applied
    original: Callable[[torch.Tensor], torch.Tensor]


class Routes(NamedTuple):
    """What is timed, and what is not and why."""

    calls: dict[str, Call]
    """One launch or one piece each."""
    loops: dict[str, Callable[[], float]]
    """``C_CALLS`` launches in C; returns microseconds a call."""
    missing: dict[str, str]


def routes_of(bench: Bench) -> Routes:
    """Everything that can be had on this machine."""
    made = Routes(dict(_whole(bench)), {}, {})
    frame, address, out = _frame(bench)
    entry = bench.kernels.driver.launch
    keep = (frame, out, bench.kernels)
    made.calls["ctypes launch"] = lambda keep=keep: entry(
        frame.config, frame.function, frame.parameters, None
    )
    made.calls["bare launch"] = _swift(bench, frame, address, out) or made.calls["ctypes launch"]
    if swift_launch() is None:
        made.missing["a launch in C"] = "no C compiler, or no Python.h: the bare launch is that of ctypes"
    for name, route in (
        ("numbers through ctypes", lambda: _numbers(bench, frame, address)),
        ("cuda.core launch", lambda: _core(bench, out)),
        ("cuda.bindings launch", lambda: _bindings(bench, frame, address)),
        ("torch's static launcher", lambda: _static(bench, out, address)),
    ):
        try:
            made.calls[name] = route()
            made.calls[name]()
        except Exception as error:  # not a public interface, another version, a package that is missing
            made.calls.pop(name, None)
            made.missing[name] = f"{type(error).__name__}: {str(error)[:200]}"
    try:
        made.loops.update(_in_c(bench, frame, address, keep))
    except (OSError, subprocess.SubprocessError) as error:
        made.missing["in C"] = f"{type(error).__name__}: {str(error)[:200]}"
    torch.cuda.synchronize()
    return made


def _whole(bench: Bench) -> Iterator[tuple[str, Call]]:
    """The calls a person makes, the operation they replace, and their pieces."""
    x, applied, original = bench.x, bench.applied, bench.original
    device = x.get_device()
    run, values = PlanRunner(bench.plan, bench.kernels, applied=True).prepare(device).run, (x,)
    plain = PlanRunner(bench.plan, bench.kernels).prepare(device).run
    yield "plan runner", lambda: run(values)
    yield "plan runner through ctypes", lambda: plain(values)
    yield "applied call", lambda: applied(x)
    yield "original", lambda: original(x)
    yield "torch.softmax", lambda: torch.softmax(x, 1)
    yield "torch.mul", lambda: torch.mul(x, x)
    yield "empty_like", lambda: torch.empty_like(x)
    fast = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
    if fast is not None:
        shape, strides, dtype = tuple(x.shape), x.stride(), x.dtype
        yield "allocation alone", lambda: fast(shape, strides, dtype)
    like = likeness(values)
    if like is not None:
        check = like.check
        yield "guard alone", lambda: check(x) and x.data_ptr() & 255 == like.addresses[0]
    stream_of = torch._C._cuda_getCurrentRawStream
    yield "current stream", lambda: stream_of(device)
    yield "data_ptr", lambda: x.data_ptr()
    yield "nothing", lambda: None


def _frame(bench: Bench) -> tuple[Frame, int, torch.Tensor]:
    """A launch ready to go, the function's address, the output it writes."""
    (step,) = bench.plan.launches
    function = bench.kernels.function(step, bench.x.get_device())
    out = torch.empty_like(bench.x)
    frame = frame_of(step, cells_of(step, function.parameters), function.address)
    frame.words[CONFIG_WORDS], frame.words[CONFIG_WORDS + 1] = bench.x.data_ptr(), out.data_ptr()
    frame.words[STREAM_WORD] = torch.cuda.current_stream().cuda_stream
    return frame, function.address, out


def _address(pointer: Any) -> int:
    return ctypes.addressof(pointer._obj)


def _swift(bench: Bench, frame: Frame, address: int, out: torch.Tensor) -> Call | None:
    """The launch that an applied kernel makes, everything in place."""
    launch = swift_launch()
    if launch is None:
        return None
    (step,) = bench.plan.launches
    cells = cells_of(step, bench.kernels.function(step, bench.x.get_device()).parameters)
    config = bytes(frame.words[:CONFIG_WORDS].cast("B"))
    template = template_of(bench.kernels.driver.launch, address, config, cells, (0, 1))
    stream, x, y = torch.cuda.current_stream().cuda_stream, bench.x.data_ptr(), out.data_ptr()
    return lambda keep=(frame, out): launch(template, stream, x, y)


def _numbers(bench: Bench, frame: Frame, address: int) -> Call:
    """The same entry with declared types, which convert three numbers each time."""
    entry = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    entry.argtypes = (ctypes.c_void_p,) * 4
    config, parameters = _address(frame.config), _address(frame.parameters)
    return lambda: entry(config, address, parameters, None)


def _bindings(bench: Bench, frame: Frame, address: int) -> Call:
    from cuda.bindings import driver

    (step,) = bench.plan.launches
    function = driver.CUfunction(address)
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    shape, parameters = (*step.grid, *step.block, step.shared_bytes), _address(frame.parameters)
    return lambda: driver.cuLaunchKernel(function, *shape, stream, parameters, 0)


def _static(bench: Bench, out: torch.Tensor, address: int) -> Call:
    """What compiled code of torch launches Triton's kernels with."""
    (step,) = bench.plan.launches
    launcher: Any = torch._C._StaticCudaLauncher._launch_kernel  # type: ignore[attr-defined]
    stream = torch.cuda.current_stream().cuda_stream
    given = (bench.x.data_ptr(), out.data_ptr(), bench.x.shape[1])
    shape = (*step.grid, step.block[0] // 32, step.shared_bytes)
    return lambda keep=out: launcher(address, *shape, "OOi", given, stream)


def _core(bench: Bench, out: torch.Tensor) -> Call:
    """The same kernel through ``cuda.core.launch``, everything prebuilt that it lets one prebuild."""
    import numpy as np
    from cuda.core import Device, LaunchConfig, ObjectCode, launch

    (step,), x = bench.plan.launches, bench.x
    (image,) = images(bench.source, [(step.kernel, step.consts)], architecture(x.get_device()))
    device = Device(x.get_device())
    device.set_current()
    kernel = ObjectCode.from_cubin(image.cubin).get_kernel(dict(image.names)[step.kernel])
    config, stream = LaunchConfig(grid=step.grid, block=step.block), device.create_stream(torch.cuda.Stream())
    cols = np.int32(x.shape[1])
    return lambda: launch(stream, config, kernel, x.data_ptr(), out.data_ptr(), cols)


def _in_c(
    bench: Bench, frame: Frame, address: int, keep: tuple[Any, ...]
) -> Iterator[tuple[str, Callable[[], float]]]:
    (step,) = bench.plan.launches
    folder = Path(tempfile.mkdtemp(prefix="launch-loops-"))
    (folder / "loops.c").write_text(LOOPS)
    command = ["cc", "-O2", "-shared", "-fPIC", str(folder / "loops.c"), "-o", str(folder / "loops.so")]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    loops, driver = ctypes.CDLL(str(folder / "loops.so")), ctypes.CDLL("libcuda.so.1")
    loops.loop_ex.restype = loops.loop_plain.restype = ctypes.c_double
    config, parameters = ctypes.c_void_p(_address(frame.config)), ctypes.c_void_p(_address(frame.parameters))
    function, calls = ctypes.c_void_p(address), ctypes.c_int(C_CALLS)
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    grid, block = ctypes.c_uint(step.grid[0]), ctypes.c_uint(step.block[0])
    ex, plain = driver.cuLaunchKernelEx, driver.cuLaunchKernel
    # The addresses are the frame's and the module's: the closure keeps both alive.
    yield "cuLaunchKernelEx in C", lambda keep=keep: loops.loop_ex(ex, calls, config, function, parameters)
    yield (
        "cuLaunchKernel in C",
        lambda: loops.loop_plain(plain, calls, stream, function, parameters, grid, block),
    )
