"""Which code did the work in one call: libraries' kernels or operations, the solution's own, plain Python.

Owns reading the profile. Runs inside the solution's process, so the shares are its own word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from typing import Any

import torch
from torch.autograd import profiler

from workbench import syntax
from workbench.foreign import ladder
from workbench.foreign.device_records import Ran, recorded
from workbench.foreign.unjoined import CurrentStream, Late, late_work

CLAIMS = ("load_inline", "load", "jit", "RawKernel", "RawModule", "_compile_kernel", "TORCH_LIBRARY", "nvrtc")
FAMILIES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("copy", re.compile(r"^Memcpy|^Memset")),
    (
        "cuDNN",
        re.compile(r"cudnn|implicit_convolve|xmma_(fprop|dgrad|wgrad)|conv2d_|winograd", re.IGNORECASE),
    ),
    ("cuBLAS", re.compile(r"cublas|nvjet|gemm|gemv|gemmk1|splitKreduce|cutlass|sm\d\d_xmma")),
    ("NCCL", re.compile(r"nccl")),
    ("cuFFT", re.compile(r"cufft|fft_")),
    (
        "PyTorch",
        # Its softmax of short rows lies in a namespace without a name (PersistentSoftmax.cuh).
        re.compile(r"at::|at_cuda|c10::|pytorch_flash|fmha|cub::|thrust|softmax_warp_(?:for|back)ward"),
    ),
    ("torch.compile", re.compile(r"^triton_(poi|per|red|tem|for|spl|unk)_")),
)
"""Whose kernel a name is, of what comes with PyTorch; the first that fits.
cuBLAS's kernels for Hopper are called nvjet; it is also told for CUTLASS, which it is built from."""
UNKNOWN = "other"
"""A kernel that is neither defined in the solution's text nor known by its name."""
REGION = "workbench: one call"
_BOUNDS = re.compile(r"__launch_bounds__\s*\([^)]*\)|__cluster_dims__\s*\([^)]*\)")
_MACRO = re.compile(r"#\s*define(?:[^\n]*\\\n)*[^\n]*__global__")
_GLOBAL = re.compile(r"__global__[^;{(]*?\b(\w+)\s*\(")


def defined(source: str) -> list[str]:
    """Kernels whose definitions the text holds, by name: ``__global__`` functions and Triton's.

    None where a macro makes them: their names are not in the text.
    """
    if _MACRO.search(source):
        return []
    names = dict.fromkeys(_GLOBAL.findall(_BOUNDS.sub("", source)))
    for node in ast.walk(syntax.module(source)):
        if isinstance(node, ast.FunctionDef):
            marks = {_last(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}
            names |= dict.fromkeys([node.name] if "jit" in marks else [])
    return list(names)


def brought(source: str) -> list[str] | None:
    """Names of the kernels a text brings: none where it has no way to; None where they cannot be told."""
    return defined(source) or (None if _MACRO.search(source) or claims(source) else [])


def family_of(kernel: str, own: Collection[str] | None) -> str:
    """Whose a kernel is; empty for one of the solution's own, whose definitions are called ``own``.

    Where definitions are known, a kernel of another name is none of them, whoever's it is.
    """
    head = re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    words = re.findall(r"\w+", head)
    if own is not None and words and words[-1] in own:
        return ""
    others = UNKNOWN if own is not None else ""
    return next((family for family, names in FAMILIES if names.search(kernel)), others)


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


def profiled(call: Callable[[], Any], source: str) -> dict[str, Any]:
    """Run ``call`` under the profiler, then once more to see which functions of its modules it calls.

    On a GPU the shares are of device time, as CUPTI tells it; ``source`` says which kernels are its own.
    """
    ladder.called.clear()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        call()
        ran, blind = recorded(call)
        late = late_work(call, CurrentStream())
        own = ladder.called | _called(call, ladder.built)
        kernels = brought(source)
        told = {"own": sorted(own)[:20], "defined": (kernels or [])[:20]}
        return {**device_time(ran, blind, kernels), **told, **followed(late)}
    # Not torch.profiler: it imports the compiler, a second and a half of a fresh process.
    for _ in range(2):  # the first profile of a process measures its own beginning
        with profiler.profile() as profile, profiler.record_function(REGION):
            call()
    own = ladder.called | _called(call, ladder.built)
    return {"shares": _cpu_shares(profile, own), "own": sorted(own)[:20]}


def followed(late: Late | None) -> dict[str, Any]:
    """The answer's part about work that the caller's stream does not wait for."""
    return {} if late is None else {"late": late.name[:120], "late_us": late.us}


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


def device_time(ran: Sequence[Ran], blind: str, own: Collection[str] | None) -> dict[str, Any]:
    """Device time by kernel name, and how many kernels and copies a call starts; or why that is not known."""
    times: dict[str, float] = {}
    for one in ran:
        times[one.name] = times.get(one.name, 0.0) + one.us
    clock = "blind" if blind else "device"
    return {**shares_of(times, own), "launches": len(ran), "clock": clock, "why_blind": blind[:300]}


def shares_of(times: Mapping[str, float], own: Collection[str] | None) -> dict[str, Any]:
    """Shares of the device time, largest first, and the names of the solution's own kernels."""
    total = sum(times.values()) or 1.0
    found = []
    for name, spent in sorted(times.items(), key=lambda item: -item[1]):
        family = family_of(name, own)
        kind = "library" if family else "own"
        found.append({"name": name[:120], "percent": 100 * spent / total, "kind": kind, "family": family})
    return {"shares": found[:8], "own_kernels": [one["name"] for one in found if one["kind"] == "own"][:20]}


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
