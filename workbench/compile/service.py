"""Compile a candidate's kernels in disposable children, remembering every answer on disk.

Owns the path from source and instances to a report. A kernel that the compiler refuses, crashes on
or never finishes is a ``CompileFailed``; only a missing or broken toolchain raises ``DeviceError``.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pydantic import ValidationError

from workbench.compile.cache import Store, cache_folder
from workbench.compile.diagnostics import read_errors, read_warnings
from workbench.compile.options import fingerprint, nvrtc_version
from workbench.compile.request import Answer, Request
from workbench.compile.resources import read_resources
from workbench.errors import DeviceError
from workbench.model import CompileFailed, CompileReport, Diagnostic, Resources
from workbench.workers import Died, Expired, Limits, Raised, Returned, light

Consts = tuple[tuple[str, str], ...]
Instance = tuple[str, Consts]
"""A name expression such as ``softmax_rows<256>`` and the macros it is compiled under."""

LIMITS = Limits(cpu_s=30, memory_bytes=2 * 2**30, file_bytes=2**28)
WITHIN = 8
"""Kernels that these limits are for; of more, in one program, every one adds its part to time and memory."""
_REFUSED: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile("\0"), "the text contains a NUL character"),
    (re.compile("[\ud800-\udfff]"), "the text contains a character that is not valid Unicode"),
    # Judged today, a kernel may be another one tomorrow.
    (
        re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__"),
        "{} is when it is compiled, and no kernel may turn on that",
    ),
)


def compile_kernel(
    source: str, instances: Iterable[Instance], arch: str = "sm_90a"
) -> CompileReport | CompileFailed:
    """Compile every instance, one program for each distinct set of consts; blocking, thread-safe.

    The report lists resources in the order of ``instances``. Raises ``DeviceError``.
    """
    started = time.perf_counter()
    wanted = tuple(dict.fromkeys(instances))
    requests = _requests(source, wanted, arch)
    with ThreadPoolExecutor(min(len(requests), os.cpu_count() or 1) or 1) as threads:
        outcomes = list(threads.map(_obtain, requests))
    failures = [outcome for outcome, _ in outcomes if isinstance(outcome, CompileFailed)]
    if failures:
        unique = dict.fromkeys(found for failure in failures for found in failure.diagnostics)
        return CompileFailed(stage="nvrtc", diagnostics=tuple(unique))
    resources: dict[Instance, Resources] = {}
    warnings: dict[Diagnostic, None] = {}
    for request, (answer, _) in zip(requests, outcomes, strict=True):
        assert isinstance(answer, Answer)
        resources |= {(name, request.consts): r for name, r in read_resources(request, answer).items()}
        warnings |= dict.fromkeys(read_warnings(request, answer.log))
    return CompileReport(
        arch=arch,
        kernels=tuple(resources[instance] for instance in wanted),
        warnings=tuple(warnings),
        seconds=time.perf_counter() - started,
        cached=all(remembered for _, remembered in outcomes),
        nvrtc=nvrtc_version(),
    )


def load_cubin(
    source: str, consts: Consts, kernels: Iterable[str], arch: str = "sm_90a", lineinfo: bool = False
) -> tuple[bytes, dict[str, str]] | CompileFailed:
    """Machine code of all ``kernels`` under one set of consts, and each one's mangled name.

    Takes it from the cache when ``compile_kernel`` saw the same kernels under these consts. With
    ``lineinfo`` it says of every instruction which line it came from.
    """
    wanted = tuple(sorted(set(kernels)))
    request = Request(source=source, consts=consts, kernels=wanted, arch=arch, lineinfo=lineinfo)
    answer, _ = _obtain(request)
    return answer if isinstance(answer, CompileFailed) else (answer.image, dict(answer.names))


def _requests(source: str, instances: tuple[Instance, ...], arch: str) -> list[Request]:
    kernels: dict[Consts, set[str]] = {}
    for kernel, consts in instances:
        kernels.setdefault(consts, set()).add(kernel)
    return [
        Request(source=source, consts=consts, kernels=tuple(sorted(names)), arch=arch)
        for consts, names in kernels.items()
    ]


def _obtain(request: Request) -> tuple[Answer | CompileFailed, bool]:
    """The compiler's answer, and whether it was remembered."""
    if odd := _unreadable(request):
        return odd, False
    store = Store(cache_folder() / "nvrtc")
    key = hashlib.sha256((fingerprint() + request.model_dump_json()).encode()).hexdigest()
    answer = _remembered(store, key)
    remembered = answer is not None
    if answer is None:
        fresh = _run(request)
        if isinstance(fresh, CompileFailed):
            return fresh, False
        answer = fresh
        store.put(key, answer.model_dump_json().encode())
    if not answer.image:
        return CompileFailed(stage="nvrtc", diagnostics=read_errors(request, answer.log)), remembered
    return answer, remembered


def _remembered(store: Store, key: str) -> Answer | None:
    body = store.get(key)
    if body is None:
        return None
    try:
        return Answer.model_validate_json(body)
    except ValidationError:  # written by another version of this module
        return None


def _run(request: Request) -> Answer | CompileFailed:
    payload, limits = request.model_dump_json().encode(), _limits(len(request.kernels))
    match light().call("workbench.compile.nvrtc:compile_request", payload, limits):
        case Returned(payload=body):
            return Answer.model_validate_json(body)
        case Expired(limit_s=limit_s):
            return _failed(
                f"compilation ran past its limit of {limit_s:g} s; unroll less, or nest templates less deeply"
            )
        case Died(message=message):
            return _failed(f"the compiler itself failed on this text: {message}; simplify the kernel")
        case Raised(type=kind, message=message):
            if kind == "MemoryError":
                most = limits.memory_bytes / 2**30
                return _failed(f"compilation needs more than {most:.0f} GB of memory; unroll less")
            raise DeviceError(f"NVRTC cannot be used ({kind}: {message}); see `workbench doctor`")


def _limits(kernels: int) -> Limits:
    """Of a program of so many kernels: a whole network has a hundred."""
    times = max(1.0, kernels / WITHIN)
    return LIMITS.model_copy(
        update={
            "wall_s": times * LIMITS.wall_s,
            "cpu_s": round(times * LIMITS.cpu_s),
            "memory_bytes": round(min(times, 4.0) * LIMITS.memory_bytes),
        }
    )


def _unreadable(request: Request) -> CompileFailed | None:
    """NVRTC reads a C string in UTF-8: a NUL would silently end the text."""
    for pattern, why in _REFUSED:
        if found := pattern.search(request.source):
            line = request.source.count("\n", 0, found.start()) + 1
            return _failed(f"{why.format(found[0])}; remove it", line)
    return None


def _failed(message: str, line: int = 1) -> CompileFailed:
    return CompileFailed(stage="nvrtc", diagnostics=(Diagnostic(line=line, message=message),))
