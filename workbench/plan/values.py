"""The values a plan computes with, and words for them in messages.

Owns ``Tensor`` (a buffer and its metadata) and ``DTypeName``. Python's own None, bool, int, float,
str, tuple, list, dict and range stand for themselves and are never changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, Target, TensorMeta
from workbench.plan.cuda_types import CPP_NAMES
from workbench.plan.limits import DEPTH, ITEMS, STRING_CHARS
from workbench.plan.refusal import Refused


@dataclass(frozen=True, slots=True)
class DTypeName:
    """A dtype such as ``f32``."""

    name: str

    @property
    def cpp(self) -> str:
        """The C++ type of one element."""
        return CPP_NAMES[self.name]


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A buffer seen through a shape and strides; compared by identity, since its data is unknown."""

    buffer: str
    meta: TensorMeta
    base: str
    """The buffer whose storage a view of this one is taken from."""
    offset: int
    """Of the first element in ``base``; elements."""
    span: int
    """Elements of ``base``'s storage."""
    origin: str
    """The argument or allocation that holds the memory; ``base`` unless a library call made a view."""
    borrowed: bool
    """True when ``origin`` is an argument of the plan, which no plan may write to or return."""


def is_number(value: object) -> bool:
    """True for int and float, and for bool, which counts as one, as it does in Python."""
    return isinstance(value, int | float)


def describe(value: object) -> str:
    """A value in words for an error message."""
    match value:
        case Tensor():
            return "a tensor"
        case DTypeName(name=name):
            return f"the dtype {name}"
        case Target():
            return "the card"
        case None | bool() | int() | float():
            return str(value)
        case str():
            return f"the string {value[:40]!r}"
        case tuple() | list() | dict():
            return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def write_out(value: object) -> str:
    """A value in an f-string, which names kernels: bools and dtypes as C++ writes them."""
    match value:
        case bool():
            return "true" if value else "false"
        case DTypeName():
            return value.cpp
        case str() | int() | float() | None:
            return str(value)
        case tuple() | list():
            return f"({', '.join(write_out(v) for v in value)}{',' if len(value) == 1 else ''})"
    raise Refused(f"{describe(value)} cannot be written into a string")


def measure(value: object) -> int:
    """Elements in a value, nested ones counted each time. Raises ``Refused`` beyond the limits.

    Every sequence is measured when it is made, so that a small plan cannot build a huge value.
    """
    if isinstance(value, str) and len(value) > STRING_CHARS:
        raise Refused(f"a string of {len(value)} characters; {STRING_CHARS} are allowed")
    return _measure(value, 0, DEPTH)


def _measure(value: object, seen: int, depth: int) -> int:
    if isinstance(value, dict):
        value = tuple(value.values())
    if not isinstance(value, tuple | list):
        return seen + 1
    if depth == 0:
        raise Refused(f"tuples nested more than {DEPTH} deep")
    seen += 1
    for element in value:
        seen = _measure(element, seen, depth - 1)
        if seen > ITEMS:
            raise Refused(f"a tuple of more than {ITEMS} elements")
    return seen


def tensor_fact(tensor: Tensor, name: str) -> object:
    """A fact of a tensor by its name in the vocabulary."""
    meta = tensor.meta
    match name:
        case "dtype":
            return DTypeName(meta.dtype)
        case "ndim":
            return len(meta.shape)
        case "itemsize":
            return DTYPE_BYTES[meta.dtype]
    return getattr(meta, name)
