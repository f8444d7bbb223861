"""Which code did the work in one call: library operations, the solution's own kernels, plain Python.

Owns reading the profile. Runs inside the solution's process, so the shares are its own word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd import profiler

from workbench import syntax
from workbench.foreign import ladder

CLAIMS = ("load_inline", "load", "jit", "RawKernel", "RawModule", "_compile_kernel", "TORCH_LIBRARY", "nvrtc")
LIBRARY = re.compile(
    r"cublas|cudnn|cutlass|gemm|sm\d\d_xmma|at::|at_cuda|cub::|Memcpy|Memset|nccl|cufft|thrust"
    r"|void gemv|splitKreduce"
)
"""Kernel names of what comes with PyTorch and its libraries."""
REGION = "workbench: one call"


def claims(source: str) -> list[str]:
    """Ways to bring a kernel of its own that the text uses, by name."""
    names = set()
    for node in ast.walk(syntax.module(source)):
        if isinstance(node, ast.Call):
            names.add(_last(node.func))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names |= {_last(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
    return sorted(names & set(CLAIMS))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def profiled(call: Callable[[], Any]) -> dict[str, Any]:
    """Run ``call`` under the profiler, then once more to see which functions of its modules it calls."""
    own: set[str] = set()
    ladder.called.clear()
    gpu = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    # Not torch.profiler: it imports the compiler, a second and a half of a fresh process.
    for _ in range(2):  # the first profile of a process measures its own beginning
        with profiler.profile(use_device="cuda" if gpu else None) as profile:
            with profiler.record_function(REGION):
                call()
            if gpu:
                torch.cuda.synchronize()
    shares = _gpu_shares(profile, own) if gpu else _cpu_shares(profile, own)
    own |= ladder.called | _called(call, ladder.built)
    return {"shares": shares, "own": sorted(own)[:20]}


def _cpu_shares(profile: Any, own: set[str]) -> list[dict[str, Any]]:
    events = profile.key_averages()
    total = sum(event.self_cpu_time_total for event in events) or 1.0
    shares = []
    for event in sorted(events, key=lambda event: -event.self_cpu_time_total):
        python = event.key == REGION
        library = event.key.startswith(("aten::", "mkldnn::", "prim", "onednn", "quantized::"))
        if not python and not library and "::" in event.key:
            own.add(event.key)
        name = "Python and code the profiler does not see" if python else event.key
        kind = "python" if python else "library" if library else "own"
        shares.append({"name": name[:120], "percent": 100 * event.self_cpu_time_total / total, "kind": kind})
    return [share for share in shares if share["percent"] >= 1][:8]


def _gpu_shares(profile: Any, own: set[str]) -> list[dict[str, Any]]:
    """Device time by kernel name."""
    times: dict[str, float] = {}
    for event in profile.function_events:
        if event.device_type == DeviceType.CUDA and event.name != REGION:
            times[event.name] = times.get(event.name, 0.0) + event.time_range.elapsed_us()
    total = sum(times.values()) or 1.0
    own |= {name[:120] for name in times if not LIBRARY.search(name)}
    return [
        {
            "name": name[:120],
            "percent": 100 * spent / total,
            "kind": "library" if LIBRARY.search(name) else "own",
        }
        for name, spent in sorted(times.items(), key=lambda item: -item[1])[:8]
    ]


def _called(call: Callable[[], Any], extensions: set[str]) -> set[str]:
    """Functions of the solution's own compiled modules that a call goes through."""
    seen: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            module = str(getattr(argument, "__module__", "") or "")
            if module.partition(".")[0] in extensions:
                seen.add(f"{module}.{getattr(argument, '__name__', '?')}")

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen
