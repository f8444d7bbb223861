"""What ran on the GPU during a call: name and duration of every kernel, copy and memory set, by CUPTI.

Runs inside the solution's process, and there only: loading CUPTI starts threads, and nothing forks there any
more. Owns no judgement of what it saw.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import torch

BUFFER_BYTES = 2**20
FORCED = 1
"""Also hand over buffers that are not full."""


class Ran(NamedTuple):
    """One thing the GPU did."""

    name: str
    """A kernel's name, demangled, or ``Memcpy`` or ``Memset``."""
    us: float


def recorded(call: Callable[[], Any]) -> tuple[list[Ran], str]:
    """What the GPU did for ``call``, waited for; or nothing, and why there are no records.

    Raises what ``call`` raises.
    """
    try:
        records = _Records()
    except ImportError as error:
        return [], f"cupti-python is not installed or does not load ({error})"
    except Exception as error:  # cuptiError, whose class lies in the module that may not load
        return [], f"CUPTI refused: {error}"
    try:
        torch.cuda.synchronize()
        call()
        torch.cuda.synchronize()
    finally:
        found = records.close()
    return found, "" if found else "CUPTI gave no records"


class _Records:
    """Records of the whole process from now until ``close``."""

    def __init__(self) -> None:
        self._cupti = cupti = import_module("cupti.cupti")
        kinds = cupti.ActivityKind
        self._names = {int(kinds.MEMCPY): "Memcpy", int(kinds.MEMSET): "Memset"}
        self._kinds = (kinds.CONCURRENT_KERNEL, kinds.MEMCPY, kinds.MEMSET)
        self._wanted = frozenset(map(int, self._kinds))
        self._found: list[Ran] = []
        cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), self._take)
        for kind in self._kinds:
            cupti.activity_enable(kind)

    def close(self) -> list[Ran]:
        """Stop; everything that was recorded."""
        self._cupti.activity_flush_all(FORCED)
        for kind in self._kinds:
            self._cupti.activity_disable(kind)
        return self._found

    def _take(self, activities: list[Any]) -> None:
        for one in activities:
            if int(one.kind) in self._wanted:
                name = self._names.get(int(one.kind)) or demangled(str(one.name))
                self._found.append(Ran(name, (one.end - one.start) / 1e3))


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
