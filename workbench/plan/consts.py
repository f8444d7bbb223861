"""``const``: values that become macros of the compilation.

Owns which names and values are safe there. A value is a number, a bool or a dtype, never text.
"""

from __future__ import annotations

import math
import re

from workbench.plan.refusal import Refused
from workbench.plan.values import DTypeName, describe

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_WORDS_OF_CUDA = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t
    class compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield
    decltype default delete do double dynamic_cast else enum explicit export extern false float for friend
    goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast requires return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor xor_eq final override import module restrict
    defined threadIdx blockIdx blockDim gridDim warpSize dim3 half size_t std cuda cub nv
"""
_KEYWORDS = frozenset(_WORDS_OF_CUDA.split())
_LARGEST = 2**63 - 1


def consts_of(value: object, kernel: str) -> tuple[tuple[str, str], ...]:
    """Macros by name, sorted, with C++ text as values. Raises ``Refused``."""
    if not isinstance(value, dict):
        raise Refused(f'const must be a dict such as {{"COLS": cols}}, not {describe(value)}', ("const",))
    for name in value:
        _check_name(name, kernel)
    return tuple(sorted((name, cpp_text(item, name)) for name, item in value.items()))


def _check_name(name: str, kernel: str) -> None:
    where = ("const", name)
    if not _IDENTIFIER.match(name):
        raise Refused(f"{name[:40]!r} cannot name a macro: use letters, digits and _", where)
    if name in _KEYWORDS:
        raise Refused(f"{name!r} is a word of CUDA C++: choose another name", where)
    if "__" in name or (name[0] == "_" and name[1:2].isupper()) or name == "_":
        raise Refused(f"{name!r} is reserved for the compiler: start with a letter, no double _", where)
    if name in re.split(r"\W+", kernel):
        raise Refused(f"{name!r} would replace the kernel's own name: choose another name", where)


def cpp_text(value: object, name: str) -> str:
    """A const as C++ text: negative numbers in parentheses, floats as double literals."""
    where = ("const", name)
    match value:
        case bool():
            return "true" if value else "false"
        case DTypeName():
            return value.cpp
        case int():
            if abs(value) > _LARGEST:
                raise Refused(f"const {name} = {value} does not fit 64 bits", where)
            return f"({value})" if value < 0 else str(value)
        case float():
            if not math.isfinite(value):
                raise Refused(f"const {name} = {value}: write INFINITY or NAN in the kernel", where)
            return f"({value!r})" if value < 0 else repr(value)
    message = f"const {name} must be a number, a bool or a dtype, not {describe(value)}"
    raise Refused(message, where)
