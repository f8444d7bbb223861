"""Facts of a compiled module that the runtime needs: where shared arrays, code and variables lie.

Reads object files with binutils' readelf, which comes with every g++. Never executes anything.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SECTION = re.compile(r"^\s*\[\s*\d+\]\s+(\S+)\s+\S+\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)\s")
_DATA_SECTIONS = frozenset({".data", ".bss", ".rodata", ".data.rel.ro"})
DYNAMIC_SYMBOL = "emu_dynamic_shared"
TOUCH_SYMBOL = "emu_touch"
_OWN = frozenset({DYNAMIC_SYMBOL, "emu_tls_anchor"})


@dataclass(frozen=True)
class Symbol:
    """One line of a symbol table."""

    name: str
    value: int
    size: int
    kind: str
    """``OBJECT``, ``TLS``, ``FUNC``, ..."""
    defined: bool

    @property
    def thread_local(self) -> bool:
        """True for what emulates shared memory."""
        return self.kind == "TLS"


@dataclass(frozen=True)
class Layout:
    """Offsets of a shared library."""

    text_end: int
    touch: int
    shared_arrays: tuple[tuple[str, int, int], ...]
    guards: tuple[int, ...]
    dynamic: int | None
    data: tuple[int, int]
    variables: tuple[tuple[str, int, int], ...]
    """``__device__`` and ``__constant__`` variables: name, low and high offset."""


@dataclass(frozen=True)
class Contents:
    """What an object file brings and what it wants from others."""

    open_arrays: tuple[str, ...]
    """Thread-local symbols it leaves open: its ``extern __shared__`` arrays."""
    undefined: tuple[str, ...]
    """Functions and variables of others."""
    indirect: tuple[str, ...]
    """Functions chosen by code that runs at loading (IFUNC)."""
    sections: tuple[tuple[str, int], ...]
    """Name and size, bytes."""


def contents(path: Path) -> Contents:
    """Read an object file that is not linked yet."""
    text = _readelf(path)
    symbols = _symbols(text)
    outside = [s for s in symbols if not s.defined]
    arrays = [s.name for s in outside if s.thread_local and s.name != "_TLS_MODULE_BASE_"]
    return Contents(
        open_arrays=tuple(dict.fromkeys(arrays)),
        undefined=tuple(dict.fromkeys(s.name for s in outside if not s.thread_local)),
        indirect=tuple(s.name for s in symbols if s.kind in ("IFUNC", "LOOS+0", "<OS specific>:")),
        sections=tuple((name, size) for name, _, size in _sections(text)),
    )


def layout(path: Path) -> Layout:
    """Read the layout of a linked module."""
    text = _readelf(path)
    symbols = _symbols(text)
    tls = [s for s in symbols if s.thread_local and s.defined]
    # The aliases of the dynamic area have no size; C++ guards are not shared memory.
    arrays = {
        (s.name, s.value, s.value + s.size)
        for s in tls
        if s.size and s.name not in _OWN and not s.name.startswith("_ZGV")
    }
    code_end, low, high = 0, 2**63, 0
    for name, address, size in _sections(text):
        if name == ".text":
            code_end = address + size
        if name in _DATA_SECTIONS:
            low, high = min(low, address), max(high, address + size)
    return Layout(
        text_end=code_end,
        touch=next(s.value for s in symbols if s.name == TOUCH_SYMBOL),
        shared_arrays=tuple(sorted(arrays, key=lambda array: array[1])),
        guards=tuple(sorted({s.value for s in tls if s.name.startswith("_ZGV")})),
        dynamic=next((s.value for s in tls if s.name == DYNAMIC_SYMBOL), None),
        data=(low, high) if high else (0, 0),
        variables=tuple(sorted(_variables(symbols, low, high))),
    )


def _variables(symbols: list[Symbol], low: int, high: int) -> set[tuple[str, int, int]]:
    """Named data of the kernel's own; not what the C runtime and the compiler put beside it."""
    return {
        (s.name, s.value, s.value + s.size)
        for s in symbols
        if s.kind == "OBJECT" and s.defined and s.size and low <= s.value and s.value + s.size <= high
        if not s.name.startswith(("_ZGV", "_ZTV", "_ZTI", "_ZTS", "__", "completed."))
    }


def _readelf(path: Path) -> str:
    command = ["readelf", "-s", "-S", "-W", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _symbols(text: str) -> list[Symbol]:
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].endswith(":") or fields[0] == "Num:":
            continue
        found.append(Symbol(fields[7], int(fields[1], 16), int(fields[2], 0), fields[3], fields[6] != "UND"))
    return found


def _sections(text: str) -> list[tuple[str, int, int]]:
    matches = (_SECTION.match(line) for line in text.splitlines())
    return [(m[1], int(m[2], 16), int(m[3], 16)) for m in matches if m]
