"""Bytes of a kernel's scalar arguments. Pure: never touches a device.

A plan gives a scalar with the C++ type of its parameter, or with a guess where only the compiler knows the
kernel's parameters: how wide it is, the driver says.
"""

from __future__ import annotations

import struct

from workbench.plan.cuda_types import CudaType, builtin
from workbench.plan.steps import ScalarArg

CELL_BYTES = 8
"""Room for one argument: a pointer or the largest number."""
_SIGNED = {1: "b", 2: "h", 4: "i", 8: "q"}
_FLOATS = {2: "e", 4: "f", 8: "d"}


def cell_of(argument: ScalarArg, size: int) -> bytes:
    """``CELL_BYTES`` bytes that begin with the argument as a parameter of ``size`` bytes takes it.

    Raises ``ValueError`` for a number that does not fit.
    """
    kind = builtin(tuple(argument.ctype.split()))
    try:
        return _encoded(argument.value, size, kind).ljust(CELL_BYTES, b"\0")
    except (KeyError, struct.error, OverflowError):
        raise ValueError(f"{argument.value!r} does not fit a parameter of {size} bytes") from None


def _encoded(value: bool | int | float, size: int, kind: CudaType | None) -> bytes:
    if kind is not None and kind.dtype == "bf16":
        return _bf16(float(value))
    if kind.family == "float" if kind is not None else isinstance(value, float):
        return struct.pack(f"<{_FLOATS[size]}", value)
    letter = _SIGNED[size]
    return struct.pack(f"<{letter if value < 0 else letter.upper()}", int(value))


def _bf16(value: float) -> bytes:
    """The upper half of the float32, rounded to nearest even."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16 & 0xFFFF).to_bytes(2, "little")
