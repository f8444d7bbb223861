"""What ran on the GPU during a call: name and duration of every kernel, copy and memory set, by CUPTI.

Runs inside the solution's process, and there only. Owns no judgement of what it saw.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch

from workbench.referee.clock.gpu import CLOSE
from workbench.referee.clock.tracing import CuptiTrace, traced


class Ran(NamedTuple):
    """One thing the GPU did."""

    name: str
    """A kernel's name, demangled, or ``Memcpy`` or ``Memset``."""
    us: float
    begin_ns: int = 0
    end_ns: int = 0
    """By the card's clock; 0 where CUPTI does not know."""
    mark: bool = False
    """True for the memory set that follows a call on the caller's stream."""


@cache
def trace() -> tuple[CuptiTrace[Ran] | None, str]:
    """The process's trace, or None and the reason."""
    return traced(_ran)


def recorded(call: Callable[[], Any]) -> tuple[list[Ran], str]:
    """What the GPU did for ``call``, waited for; or nothing, and why there are no records.

    Raises what ``call`` raises.
    """
    tracing, why = trace()
    if tracing is None:
        return [], why
    torch.cuda.synchronize()
    with tracing.running():
        call()
        torch.cuda.synchronize()
        found = tracing.collect()
    return found, "" if found else "CUPTI gave no records"


def _ran(activity: Any, is_memset: bool) -> Ran:
    name = getattr(activity, "name", "")  # copies have none
    return Ran(
        "Memset" if is_memset else demangled(name) or "Memcpy",
        (activity.end - activity.start) / 1e3,
        activity.start,
        activity.end,
        is_memset and not activity.graph_node_id and activity.value == CLOSE,
    )


def demangled(name: str) -> str:
    """A C++ name as people write it; other names, and all where there is no C++ library, as they are."""
    demangle, free = _demangler()
    if demangle is None or not name.startswith("_Z"):
        return name
    status = ctypes.c_int(-1)
    address = demangle(name.encode(), None, None, ctypes.byref(status))
    if not address:
        return name
    try:
        return ctypes.string_at(address).decode(errors="replace")
    finally:
        free(address)


@cache
def _demangler() -> tuple[Any, Any]:
    """``__cxa_demangle`` of the C++ library that torch has loaded, and what frees its answers."""
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return None, None
    demangle.restype = ctypes.c_void_p
    demangle.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
    free = ctypes.CDLL(None).free
    free.argtypes, free.restype = (ctypes.c_void_p,), None
    return demangle, free
