"""Loads built modules into this process and runs single launches through the C interface.

Owns the ctypes mirror of include/abi.h. Knows nothing of plans or tensors: addresses in, JSON out.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from workbench.emulator.values import Binary
from workbench.plan.steps import Dim3

STATISTICS, RACES, SHARED_INITIAL = 1, 2, 4
_NO_OFFSET = 2**64 - 1


class _Range(ctypes.Structure):
    _fields_ = (("low", ctypes.c_uint64), ("high", ctypes.c_uint64))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("low", ctypes.c_uint64), ("high", ctypes.c_uint64),
        ("item_bytes", ctypes.c_uint32), ("read_only", ctypes.c_uint32),
        ("initialised", ctypes.c_void_p),
    )  # fmt: skip


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3),
        ("dynamic_shared_bytes", ctypes.c_uint32), ("workers", ctypes.c_uint32),
        ("checks", ctypes.c_uint32), ("reverse", ctypes.c_uint32), ("sample", ctypes.c_uint32),
        ("race_sample", ctypes.c_uint32), ("race_first", ctypes.c_uint32),
        ("text_bytes", ctypes.c_uint32), ("buffers", ctypes.c_uint32), ("variables", ctypes.c_uint32),
        ("shared_arrays", ctypes.c_uint32), ("guards", ctypes.c_uint32), ("shadow_shift", ctypes.c_uint32),
        ("cooperative", ctypes.c_uint32), ("undefined", ctypes.c_uint32), ("resident", ctypes.c_uint32),
        ("first", ctypes.c_uint64), ("step", ctypes.c_uint64), ("clock_start", ctypes.c_uint64),
        ("module_base", ctypes.c_uint64), ("touch_tls", ctypes.c_void_p),
        ("shared", ctypes.c_void_p), ("guard_offsets", ctypes.c_void_p),
        ("dynamic_offset", ctypes.c_uint64), ("data_low", ctypes.c_uint64), ("data_high", ctypes.c_uint64),
        ("progress", ctypes.c_void_p),
    )  # fmt: skip


@dataclass(frozen=True)
class Memory:
    """A buffer as the runtime sees it."""

    low: int
    high: int
    item_bytes: int
    read_only: bool = False
    marks: int = 0
    """Address of one byte for each byte of the buffer, set once it is written; 0 for defined contents."""


@dataclass(frozen=True)
class Geometry:
    """Everything about a launch but its arguments."""

    grid: Dim3
    block: Dim3
    shared_bytes: int
    checks: int = 0
    workers: int = 1
    reverse: bool = False
    sample: int = 1
    race_sample: int = 1
    """Races are looked for in every so-manieth run of blocks, the first of them at ``race_first``."""
    race_first: int = 0
    resident: int = 0
    """Blocks that take turns on one OS thread, as on a card with so much room; 0: each runs to its end."""
    first: int = 0
    step: int = 1
    """The n-th block to begin, or cluster, is number ``first + n * step``, modulo how many there are."""
    clock_start: int = 0
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False
    undefined: int = 0
    """Which of warp.cpp's values a shuffle gives for a lane that takes no part."""


class LoadedBinary:
    """A shared library in this process."""

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        self._library = ctypes.CDLL(binary.path)
        # Looked up through the library: its dependency is the runtime that its kernels call. A process that
        # has loaded a runtime from another cache keeps using that one, whatever path is asked for.
        self._library.emu_launch.restype = ctypes.c_void_p
        self._library.emu_release.argtypes = (ctypes.c_void_p,)
        self._touch = _address(self._library.emu_touch)
        self._arrays = (_Range * max(1, len(binary.shared_arrays)))(
            *(_Range(low, high) for _, low, high in binary.shared_arrays)
        )
        self._guards = (ctypes.c_uint64 * max(1, len(binary.guards)))(*binary.guards)
        for entry in range(len(binary.kernels)):
            self.signature(entry)  # written down in the module once
        base = self._touch - binary.touch_offset
        item = 1 << binary.shadow_shift
        self._variables = tuple(Memory(base + low, base + high, item) for _, low, high in binary.variables)
        self._initial = {name: self._value(low, high) for name, low, high in binary.variables}

    def signature(self, entry: int) -> tuple[str, ...]:
        """One code a parameter: ``p`` for a pointer, ``struct`` letters, ``bf16``, ``s24`` for 24 bytes."""
        function = getattr(self._library, f"emu_signature_{entry}")
        function.restype = ctypes.c_char_p
        codes: str = function().decode()
        return tuple(codes.split(",")[:-1])

    def kept(self) -> tuple[str, ...]:
        """Names of the variables whose values are not those they had when the library was loaded."""
        variables = self.binary.variables
        return tuple(name for name, low, high in variables if self._value(low, high) != self._initial[name])

    def _value(self, low: int, high: int) -> bytes:
        return ctypes.string_at(self._touch - self.binary.touch_offset + low, high - low)

    def launch(
        self,
        entry: int,
        geometry: Geometry,
        cells: Sequence[bytes],
        memory: Sequence[Memory],
        progress: int = 0,
    ) -> bytes:
        """Run one launch; ``cells`` are the arguments' bytes. Returns the runtime's JSON.

        At the address ``progress``, where there is one, stands how many blocks have ended so far.
        """
        storage = [ctypes.create_string_buffer(cell, max(len(cell), 16)) for cell in cells]
        arguments = (ctypes.c_void_p * max(1, len(storage)))(*(ctypes.addressof(cell) for cell in storage))
        pieces = (*memory, *self._variables)
        buffers = (_Buffer * max(1, len(pieces)))(
            *(_Buffer(m.low, m.high, m.item_bytes, m.read_only, m.marks or None) for m in pieces)
        )
        config = self._config(geometry, len(memory))
        config.progress = progress or None
        function = ctypes.c_void_p(_address(getattr(self._library, f"emu_entry_{entry}")))
        text = self._library.emu_launch(ctypes.byref(config), function, arguments, buffers)
        result = ctypes.string_at(text)
        self._library.emu_release(text)
        return result

    def _config(self, geometry: Geometry, buffers: int) -> _Config:
        binary = self.binary
        base = self._touch - binary.touch_offset
        dynamic = binary.dynamic_offset
        return _Config(
            grid=(ctypes.c_uint32 * 3)(*geometry.grid),
            block=(ctypes.c_uint32 * 3)(*geometry.block),
            cluster=(ctypes.c_uint32 * 3)(*geometry.cluster),
            dynamic_shared_bytes=geometry.shared_bytes,
            workers=geometry.workers or cores(),
            checks=geometry.checks,
            reverse=geometry.reverse,
            sample=geometry.sample,
            race_sample=geometry.race_sample,
            race_first=geometry.race_first,
            text_bytes=binary.text_bytes,
            buffers=buffers,
            variables=len(self._variables),
            shared_arrays=len(binary.shared_arrays),
            guards=len(binary.guards),
            shadow_shift=binary.shadow_shift,
            cooperative=geometry.cooperative,
            undefined=geometry.undefined,
            resident=geometry.resident,
            first=geometry.first,
            step=geometry.step,
            clock_start=geometry.clock_start,
            module_base=base,
            touch_tls=self._touch,
            shared=ctypes.addressof(self._arrays),
            guard_offsets=ctypes.addressof(self._guards),
            dynamic_offset=_NO_OFFSET if dynamic is None else dynamic,
            data_low=base + binary.data[0],
            data_high=base + binary.data[1],
        )


@cache
def load(binary: Binary) -> LoadedBinary:
    """Load a library once a process."""
    return LoadedBinary(binary)


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


def encode_scalar(value: bool | int | float, code: str) -> bytes:
    """Bytes of a by-value argument. Raises ``ValueError`` or ``OverflowError`` when it does not fit."""
    if code == "bf16":
        # Round to nearest even on the upper half of the float's bits.
        (bits,) = struct.unpack("<I", struct.pack("<f", float(value)))
        return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF)
    if code in ("f", "d", "e"):
        return struct.pack("<" + code, float(value))
    if code == "?":
        return struct.pack("<?", bool(value))
    if code in tuple("bBhHiIqQ"):
        if int(value) != value:
            raise ValueError(f"{value} is not a whole number")
        try:
            return struct.pack("<" + code, int(value))
        except struct.error:
            raise OverflowError(f"{value} does not fit the parameter's type") from None
    raise ValueError("a structure is passed by value")


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address
