"""CUDA's built-in types and the dtypes that fit them.

Owns the table. A type that is not in it is accepted everywhere: the compiler knows it, we do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.model import DTYPE_BYTES

Family = Literal["float", "signed", "unsigned", "bool", "char", "vector", "void"]


@dataclass(frozen=True, slots=True)
class CudaType:
    """A built-in type."""

    text: str
    """Its canonical C++ spelling."""
    family: Family
    bytes: int
    dtype: str = ""
    """The dtype whose elements it is; empty for raw bits, vectors and void."""


_FLOATS = (
    CudaType("float", "float", 4, "f32"),
    CudaType("double", "float", 8, "f64"),
    CudaType("__half", "float", 2, "f16"),
    CudaType("__nv_bfloat16", "float", 2, "bf16"),
)
_INTEGERS = (
    CudaType("signed char", "signed", 1, "i8"),
    CudaType("char", "char", 1),
    CudaType("short", "signed", 2, "i16"),
    CudaType("int", "signed", 4, "i32"),
    CudaType("long", "signed", 8, "i64"),
    CudaType("long long", "signed", 8, "i64"),
    CudaType("unsigned char", "unsigned", 1, "u8"),
    CudaType("unsigned short", "unsigned", 2),
    CudaType("unsigned int", "unsigned", 4),
    CudaType("unsigned long", "unsigned", 8),
    CudaType("unsigned long long", "unsigned", 8),
)
_BOOL = CudaType("bool", "bool", 1, "bool")
_VOID = CudaType("void", "void", 0)

_BY_TEXT = {t.text: t for t in (*_FLOATS, *_INTEGERS, _BOOL, _VOID)}

_OTHER_NAMES: Mapping[str, str] = {
    "half": "__half", "nv_bfloat16": "__nv_bfloat16",
    "int8_t": "signed char", "int16_t": "short", "int32_t": "int", "int64_t": "long long",
    "uint8_t": "unsigned char", "uint16_t": "unsigned short", "uint32_t": "unsigned int",
    "uint64_t": "unsigned long long", "size_t": "unsigned long", "ptrdiff_t": "long", "ssize_t": "long",
    "intptr_t": "long", "uintptr_t": "unsigned long", "uchar": "unsigned char",
    "ushort": "unsigned short", "uint": "unsigned int", "ulong": "unsigned long",
}  # fmt: skip

_VECTOR_BYTES: Mapping[str, int] = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
    "longlong": 8, "ulonglong": 8, "float": 4, "double": 8,
}  # fmt: skip
_VECTORS = {
    f"{base}{n}": CudaType(f"{base}{n}", "vector", n * size)
    for base, size in _VECTOR_BYTES.items()
    for n in (1, 2, 3, 4)
}

_SINGLE_WORD: Mapping[str, CudaType] = {
    **{text: kind for text, kind in _BY_TEXT.items() if " " not in text},
    **{name: _BY_TEXT[text] for name, text in _OTHER_NAMES.items()},
    **{name: CudaType(name, "vector", 4, "f16") for name in ("half2", "__half2")},
    **{name: CudaType(name, "vector", 4, "bf16") for name in ("nv_bfloat162", "__nv_bfloat162")},
    **_VECTORS,
}
_KEYWORDS = frozenset(("signed", "unsigned", "char", "short", "int", "long", "double"))

CPP_NAMES: Mapping[str, str] = {t.dtype: t.text for t in (*_FLOATS, *_INTEGERS, _BOOL) if t.dtype}
"""dtype to the C++ type of one element."""


def builtin(name: tuple[str, ...]) -> CudaType | None:
    """The built-in type that some words spell, such as ``("unsigned", "int")``; None for any other."""
    if len(name) == 1 and name[0] in _SINGLE_WORD:
        return _SINGLE_WORD[name[0]]
    if not name or not set(name) <= _KEYWORDS or "double" in name:
        return None
    longs, unsigned = name.count("long"), "unsigned" in name
    if "char" in name:
        base = "char"
        if "signed" in name:
            return _BY_TEXT["signed char"]
    else:
        base = "short" if "short" in name else ("int", "long", "long long")[min(longs, 2)]
    return _BY_TEXT[f"unsigned {base}" if unsigned else base]


def holds(pointee: CudaType, dtype: str) -> bool:
    """True when a pointer to this type may be given a tensor of that dtype.

    Its own element type, or ``half2`` and its like of it; an unsigned integer of the same width (raw
    bits); ``char`` for any one-byte dtype; another vector whose size is a multiple of the element's (a
    way to load, not a dtype); ``void``.
    """
    size = DTYPE_BYTES[dtype]
    match pointee.family:
        case "void":
            return True
        case "vector" if not pointee.dtype:
            return pointee.bytes % size == 0
        case "unsigned" | "char":
            return pointee.bytes == size
    return pointee.dtype == dtype


def integer_range(kind: CudaType) -> tuple[int, int]:
    """Smallest and largest value of an integer type or bool."""
    if kind.family == "bool":
        return 0, 1
    bits = 8 * kind.bytes
    return (0, 2**bits - 1) if kind.family == "unsigned" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


_LARGEST: Mapping[str, float] = {
    "f64": float("inf"),
    "f32": 3.4028235e38,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
}


def largest_float(kind: CudaType) -> float:
    """Largest finite magnitude of a floating type."""
    return _LARGEST[kind.dtype]
